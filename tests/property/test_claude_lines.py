"""Whatever Claude Code says, in whatever order: a turn ends once, a steer is told of once, nothing follows the end."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from antiphon.agents.claude.conversation import Conversation
from antiphon.agents.pipes import Overlong
from antiphon.ports.agent import Began, Ended, Part, Said, Steered, Text
from antiphon.system import SystemIds

HOST = ("prompt", "steer", "cancel")
CLAUDE = ("started", "cancelled", "replay", "begin", "delta", "whole", "result", "aborted", "error", "own", "none")
RARE = ("taken back", "not taken back", "retry", "long", "long result", "garbage", "tool", "tool result", "ask", "init")


class Scene:
    """A conversation, and what a host would do with it."""

    def __init__(self) -> None:
        self.conversation = Conversation("session", SystemIds(), resumed=False, on_disk=lambda _id: False)
        self.said: list[Said] = []
        self.uuids: list[str] = []
        self.requests: list[str] = []
        self.turns = 0
        self.steers = 0

    @property
    def open_turn(self) -> str | None:
        turn_id = f"turn_{self.turns}"
        ended = {said.turn_id for said in self.said if isinstance(said, Ended)}
        return turn_id if self.turns and turn_id not in ended else None

    def step(self, what: str, which: int) -> None:
        match what:
            case "prompt":
                if self.open_turn is None:
                    self.turns += 1
                    self.conversation.prompt(f"turn_{self.turns}", (Part(text="hello"),))
            case "steer":
                self.steers += 1
                self.conversation.steer(f"turn_{self.turns}", f"msg_{self.steers}", (Part(text="more"),))
            case "cancel":
                self.conversation.cancel(f"turn_{self.turns}")
            case "long" | "long result":
                head = b'{"total_cost_usd":1' if what == "long result" else b'{"type":"user"'
                self.conversation.receive(Overlong(1 << 20, head))
            case "garbage":
                self.conversation.receive(b'{"type":"result","usage":7}')
            case _:
                self.hear(what, which)
        self.collect()

    def hear(self, what: str, which: int) -> None:
        name = self.uuids[which % len(self.uuids)] if self.uuids else "nobody"
        request = self.requests[which % len(self.requests)] if self.requests else "nothing"
        self.conversation.receive(msgspec.json.encode(line(what, name, request, f"m{which}")))

    def collect(self) -> None:
        for sent in self.conversation.outbox:
            told = msgspec.json.decode(sent)
            if told["type"] == "user":
                self.uuids.append(told["uuid"])
            elif told["type"] == "control_request":
                self.requests.append(told["request_id"])
        self.conversation.outbox.clear()
        self.said += self.conversation.said
        self.conversation.said.clear()


def line(what: str, name: str, request: str, message: str) -> dict[str, Any]:
    content = [{"type": "text", "text": "word"}]
    ended: dict[str, Any] = {"type": "result", "subtype": "success", "num_turns": 1, "user_message_uuids": [name]}
    lines: dict[str, dict[str, Any]] = {
        "started": {"type": "command_lifecycle", "command_uuid": name, "state": "started"},
        "cancelled": {"type": "command_lifecycle", "command_uuid": name, "state": "cancelled"},
        "replay": {"type": "user", "uuid": name, "isReplay": True, "message": {"content": "said"}},
        "begin": {"type": "stream_event", "event": {"type": "message_start", "message": {"id": message}}},
        "delta": {
            "type": "stream_event",
            "event": {"type": "content_block_delta", "delta": {"text": "word"}},
            "api_message_id": message,
        },
        "whole": {"type": "assistant", "message": {"id": message, "content": content}},
        "result": ended,
        "aborted": {**ended, "is_error": True, "terminal_reason": "aborted_streaming"},
        "error": {**ended, "is_error": True, "result": "no luck"},
        "own": {"type": "result", "origin": {"kind": "task-notification"}, "num_turns": 1},
        "none": {"type": "result", "num_turns": 0},
        "taken back": {
            "type": "control_response",
            "response": {"request_id": request, "response": {"cancelled": True}},
        },
        "not taken back": {"type": "control_response", "response": {"request_id": request, "response": {}}},
        "retry": {"type": "system", "subtype": "api_retry"},
        "tool": {"type": "assistant", "message": {"id": message, "content": [{"type": "tool_use", "id": "t"}]}},
        "tool result": {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t"}]}},
        "ask": {"type": "control_request", "request_id": "q", "request": {"subtype": "can_use_tool"}},
        "init": {"type": "system", "subtype": "init", "session_id": "another"},
    }
    return lines[what]


steps = st.lists(st.tuples(st.sampled_from(HOST + CLAUDE * 2 + RARE), st.integers(0, 5)), max_size=40)


@given(steps)
def test_every_order_of_lines_leaves_one_end_for_a_turn_and_one_word_for_a_steer(script: list[tuple[str, int]]) -> None:
    scene = Scene()
    for what, which in script:
        scene.step(what, which)
    over: set[str] = set()
    own = {said.turn_id for said in scene.said if isinstance(said, Began)}
    for said in scene.said:
        turn_id = getattr(said, "turn_id", None)
        assert turn_id not in over or isinstance(said, Steered), f"{said} after the end"
        if isinstance(said, Ended):
            over.add(said.turn_id)
        if isinstance(said, Text):
            assert said.turn_id in own or said.turn_id.removeprefix("turn_").isdecimal()
    told = [said.message_id for said in scene.said if isinstance(said, Steered)]
    assert len(told) == len(set(told))


@given(steps)
def test_after_any_order_of_lines_an_orderly_turn_is_answered(script: list[tuple[str, int]]) -> None:
    """Whatever ran before is brought to its end first, as an orderly Claude Code would."""
    scene = Scene()
    for what, which in script:
        scene.step(what, which)
    for _ in range(3):
        for place in range(len(scene.uuids)):
            scene.step("result", place)
    assert scene.open_turn is None
    if scene.conversation.resume_token is not None:
        scene.step("own", 0)
    before = len(scene.said)
    scene.step("prompt", 0)
    mine = len(scene.uuids) - 1
    scene.step("started", mine)
    scene.hear("begin", 99)
    scene.hear("delta", 99)
    scene.step("result", mine)
    texts = [said.text for said in scene.said[before:] if isinstance(said, Text)]
    assert texts == ["word"]
    assert [said.turn_id for said in scene.said[before:] if isinstance(said, Ended)][-1] == f"turn_{scene.turns}"

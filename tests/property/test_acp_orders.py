"""An ACP agent and the host in any order: a plain model of an agent that says what it likes, twice, and too late."""

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from antiphon.agents.acp.conversation import Conversation
from antiphon.agents.pipes import Overlong
from antiphon.ports.agent import Asked, Ended, Part, Said, Text, ToolEnded, ToolStarted

SESSION = "session-1"
OPTIONS = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]
JUNK = [b"", b"hello", b"{}", b"[]", b"\xff", b'{"jsonrpc":"2.0","method":"session/update","params":7}', b'{"id":null}']
UNHEARD_OF = ["fs/read_text_file", "terminal/create", "unheard/of", "session/request_permission"]


class AgentInAnyOrder(RuleBasedStateMachine):
    """The host prompts, cancels and answers; the agent reads in order, and otherwise does what it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.talk = Conversation(SESSION, requests=2, resumable=True, resumed=False, mode=None)
        self.heard: list[Said] = []
        self.inbox: list[dict[str, Any]] = []
        """What the host has sent and the agent has not read."""
        self.counter = 0
        self.prompted: list[str] = []
        self.answered: dict[int, str] = {}
        """How the agent has answered each prompt."""
        self.running: tuple[int, str] | None = None
        self.past: list[str] = []
        """Messages of turns that are over."""
        self.cut: set[str] = set()
        """The turns with a line over the limit."""
        self.stopped: set[str] = set()
        """The turns that the host wanted to stop."""
        self.asked: dict[int, int] = {}
        """How often each question of the agent's was answered."""

    # Ways

    def number(self) -> int:
        self.counter += 1
        return self.counter

    def tell(self, **message: Any) -> None:
        self.hear(msgspec.json.encode({"jsonrpc": "2.0", **message}))

    def update(self, what: str, **fields: Any) -> None:
        params = {"sessionId": SESSION, "update": {"sessionUpdate": what, **fields}}
        self.tell(method="session/update", params=params)

    def hear(self, line: bytes | Overlong) -> None:
        self.talk.receive(line)
        self.collect()

    def collect(self) -> None:
        self.heard += self.talk.said
        self.talk.said.clear()
        for line in self.talk.outbox:
            message = msgspec.json.decode(line, type=dict[str, Any])
            if "method" in message:
                self.inbox.append(message)
            else:
                self.asked[message["id"]] += 1
        self.talk.outbox.clear()

    def of(self, kind: type[Any], turn_id: str) -> list[Any]:
        return [said for said in self.heard if isinstance(said, kind) and getattr(said, "turn_id", None) == turn_id]

    def questions(self) -> list[str]:
        return [f"tool {number}" for number in self.asked]

    def busy(self) -> bool:
        return any(not self.of(Ended, turn_id) for turn_id in self.prompted)

    # The host

    @initialize(heard=st.booleans())
    def begin(self, heard: bool) -> None:
        self.prompt(heard)

    @precondition(lambda self: not self.busy())
    @rule(heard=st.booleans())
    def prompt(self, heard: bool) -> None:
        turn_id = f"turn_{self.number()}"
        self.prompted.append(turn_id)
        self.talk.prompt(turn_id, (Part(text=turn_id),))
        self.collect()
        if heard:
            self.read()

    @precondition(lambda self: self.prompted)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        turn_id = data.draw(st.sampled_from(self.prompted[-2:]))
        self.stopped.add(turn_id)
        self.talk.cancel(turn_id)
        self.collect()
        told = bool(self.inbox) and self.inbox[-1]["method"] == "session/cancel"
        assert told or self.of(Ended, turn_id)

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), allow=st.booleans())
    def answer(self, data: st.DataObject, allow: bool) -> None:
        self.talk.answer(str(data.draw(st.sampled_from(sorted(self.asked)[-3:]))), allow, None, None)
        self.collect()

    # The agent

    @precondition(lambda self: self.inbox)
    @rule()
    def read(self) -> None:
        for message in self.inbox:
            if message["method"] == "session/prompt":
                assert self.running is None, "the agent sees a second prompt"
                self.running = (message["id"], message["params"]["prompt"][0]["text"])
            else:
                assert message["method"] == "session/cancel"
        self.inbox.clear()

    @precondition(lambda self: self.running)
    @rule(what=st.sampled_from(["agent_message_chunk", "agent_thought_chunk", "pending", "in_progress", "failed"]))
    def work(self, what: str) -> None:
        assert self.running
        if what.startswith("agent"):
            self.update(what, messageId=self.running[1], content={"type": "text", "text": f"{self.running[1]} "})
        else:
            self.update("tool_call", toolCallId=f"tool of {self.running[1]}", title=self.running[1], status=what)

    @rule()
    def ask(self) -> None:
        number = self.number()
        self.asked[number] = 0
        call = {"toolCallId": f"tool {number}", "title": "x"}
        params = {"sessionId": SESSION, "toolCall": call, "options": OPTIONS}
        self.tell(id=number, method="session/request_permission", params=params)
        assert self.asked[number] == (not self.busy() or self.prompted[-1] in self.stopped)

    @precondition(lambda self: self.running)
    @rule(
        reason=st.sampled_from(["end_turn", "end_turn", "cancelled", "max_tokens", "tired", None]), again=st.booleans()
    )
    def finish(self, reason: str | None, again: bool) -> None:
        assert self.running
        number, turn_id = self.running
        self.answered[number] = reason or "refused"
        self.past.append(turn_id)
        self.running = None
        outcome = {"result": {"stopReason": reason}} if reason else {"error": {"code": -1, "message": "no"}}
        self.tell(id=number, **outcome)
        if again:
            self.prompt(heard=True)

    @precondition(lambda self: self.past)
    @rule(data=st.data(), what=st.sampled_from(["answer", "words", "tool"]))
    def come_too_late(self, data: st.DataObject, what: str) -> None:
        turn_id = data.draw(st.sampled_from(self.past))
        if what == "answer":
            self.tell(id=data.draw(st.sampled_from(sorted(self.answered))), result={"stopReason": "end_turn"})
        elif what == "words" and self.of(Text, turn_id):
            content = {"type": "text", "text": f"{turn_id} "}
            self.update("agent_message_chunk", messageId=turn_id, content=content)
        elif what == "tool" and any(tool.tool_id == f"tool of {turn_id}" for tool in self.of(ToolStarted, turn_id)):
            self.update("tool_call_update", toolCallId=f"tool of {turn_id}", title=turn_id, status="completed")

    @rule(what=st.sampled_from([*JUNK, *UNHEARD_OF, "wait", "too much"]))
    def misbehave(self, what: bytes | str) -> None:
        if isinstance(what, bytes):
            self.hear(what)
        elif what == "wait":
            self.talk.let_go()
            self.collect()
        elif what == "too much":
            running = [turn_id for turn_id in self.prompted if not self.of(Ended, turn_id)]
            self.cut.update(running)
            self.stopped.update(running)
            self.hear(Overlong(head=b'{"jsonrpc":"2.0","method":"session/update"', size=1_000_000))
        else:
            number = self.number()
            self.asked[number] = 0
            self.tell(id=number, method=what, params={})
            assert self.asked[number] == 1

    # What must hold

    @invariant()
    def a_turn_ends_once_and_when_the_agent_says_so(self) -> None:
        ends = [said.turn_id for said in self.heard if isinstance(said, Ended)]
        assert ends == self.past

    @invariant()
    def only_an_end_of_turn_is_a_whole_answer(self) -> None:
        ends = [said for said in self.heard if isinstance(said, Ended)]
        for ended, reason in zip(ends, self.answered.values(), strict=True):
            if ended.error is None and not ended.cancelled:
                assert reason == "end_turn"
            if ended.turn_id in self.cut:
                assert ended.error

    @invariant()
    def words_and_tools_stay_in_their_turn(self) -> None:
        for turn_id in self.prompted:
            assert all(said.text.strip() == turn_id for said in self.of(Text, turn_id))
            tools = self.of(ToolEnded, turn_id)
            assert len({tool.tool_id for tool in tools}) == len(tools)
            started = self.of(ToolStarted, turn_id)
            assert {tool.tool_id for tool in tools} <= {tool.tool_id for tool in started}
            assert all(tool.tool_id in (f"tool of {turn_id}", *self.questions()) for tool in started)

    @invariant()
    def a_question_is_answered_once_and_does_not_outlive_its_turn(self) -> None:
        assert max(self.asked.values(), default=0) <= 1
        waiting = {
            int(said.request_id)
            for said in self.heard
            if isinstance(said, Asked) and not self.asked[int(said.request_id)]
        }
        unanswered = {number for number, times in self.asked.items() if not times}
        assert waiting == unanswered
        if not self.busy():
            assert not unanswered

    @invariant()
    def nothing_is_broken(self) -> None:
        assert self.talk.broken is None


TestAgentInAnyOrder = AgentInAnyOrder.TestCase
TestAgentInAnyOrder.settings = settings(max_examples=100, stateful_step_count=50)

"""Codex and the host in any order: a plain model of Codex, whose answers may come earlier or later than its words."""

from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from antiphon.agents.codex.conversation import Conversation
from antiphon.ports.agent import Ended, Part, Said, Steered, Text

THREAD = "thread-1"


class CodexInAnyOrder(RuleBasedStateMachine):
    """The host prompts, steers and cancels; Codex takes its requests in order and answers them when it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.talk = Conversation(THREAD, requests=2, kept_on_disk=True)
        self.heard: list[Said] = []
        self.inbox: list[dict[str, Any]] = []
        """What the host has sent and Codex has not read."""
        self.answers: list[bytes] = []
        """What Codex has answered and the host has not read."""
        self.counter = 0
        self.prompted: list[str] = []
        self.steered: dict[str, tuple[str, bool]] = {}
        """Steers: their turn, and whether the host knew that it had ended."""
        self.hosts: dict[str, set[str]] = {}
        """The host's turns of each of Codex's: one, or two when a prompt came into a turn that Codex began itself."""
        self.beginning: str | None = None
        self.running: str | None = None
        self.over: list[str] = []
        self.interrupted = False
        self.pending_steers: list[str] = []
        self.questions: set[int] = set()
        self.answered_questions: list[int] = []

    # Ways

    def number(self) -> int:
        self.counter += 1
        return self.counter

    def tell(self, method: str, request_id: int | None = None, **params: Any) -> None:
        message: dict[str, Any] = {"method": method, "params": {"threadId": THREAD, **params}}
        self.hear(msgspec.json.encode(message if request_id is None else {**message, "id": request_id}))

    def hear(self, line: bytes) -> None:
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
                self.answered_questions.append(message["id"])
        self.talk.outbox.clear()

    def ends(self, turn_id: str) -> list[Ended]:
        return [said for said in self.heard if isinstance(said, Ended) and said.turn_id == turn_id]

    def busy(self) -> bool:
        """Whether a turn runs as far as the host knows: then it prompts nobody."""
        return any(not self.ends(turn_id) for turn_id in self.prompted)

    # The host

    @precondition(lambda self: not self.busy())
    @rule()
    def prompt(self) -> None:
        turn_id = f"turn_{self.number()}"
        self.prompted.append(turn_id)
        self.talk.prompt(turn_id, (Part(text="hello"),))
        self.collect()

    @precondition(lambda self: self.prompted)
    @rule(data=st.data())
    def steer(self, data: st.DataObject) -> None:
        turn_id = data.draw(st.sampled_from(self.prompted[-2:]))
        message_id = f"msg_{self.number()}"
        self.steered[message_id] = (turn_id, bool(self.ends(turn_id)))
        self.talk.steer(turn_id, message_id, (Part(text="also"),))
        self.collect()

    @precondition(lambda self: self.prompted)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.talk.cancel(data.draw(st.sampled_from(self.prompted[-2:])))
        self.collect()

    # Codex

    @precondition(lambda self: self.inbox)
    @rule()
    def read_request(self) -> None:
        request = self.inbox.pop(0)
        params, outcome = request["params"], {"result": {}}
        refused: dict[str, Any] = {"error": {"code": -32600, "message": "no active turn"}}
        match request["method"]:
            case "turn/start":
                outcome = {"result": {"turn": {"id": self.start(params["clientUserMessageId"])}}}
            case "turn/steer":
                if params["expectedTurnId"] == self.running:
                    self.pending_steers.append(params["clientUserMessageId"])
                else:
                    outcome = refused
            case "turn/interrupt":
                if params["turnId"] == self.running:
                    self.interrupted = True
                else:
                    outcome = refused
            case method:
                raise AssertionError(method)
        self.answers.append(msgspec.json.encode({"id": request["id"], **outcome}))

    def start(self, turn_id: str) -> str:
        """Begin a turn, or take the prompt into one that Codex began itself."""
        assert self.beginning is None
        if self.running is not None:
            assert self.running.startswith("own"), "a second prompt while a turn runs"
            self.pending_steers.append(turn_id)
            self.hosts[self.running].add(turn_id)
            return self.running
        self.beginning = f"x{self.number()}"
        self.hosts[self.beginning] = {turn_id}
        return self.beginning

    @precondition(lambda self: not self.running and not self.beginning)
    @rule()
    def wake_up(self) -> None:
        self.running = f"own{self.number()}"
        self.hosts[self.running] = {f"turn_{self.running}"}
        self.tell("turn/started", turn={"id": self.running, "status": "inProgress"})

    @precondition(lambda self: self.answers)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        self.hear(self.answers.pop(data.draw(st.integers(0, len(self.answers) - 1))))

    @precondition(lambda self: self.beginning)
    @rule(announced=st.booleans())
    def begin(self, announced: bool) -> None:
        self.running, self.beginning = self.beginning, None
        self.tell("turn/started", turn={"id": self.running, "status": "inProgress"})
        if announced:
            [turn_id] = self.hosts[str(self.running)]
            self.note(turn_id)

    def note(self, client_id: str) -> None:
        item = {"type": "userMessage", "id": f"u-{client_id}", "clientId": client_id}
        self.tell("item/completed", turnId=self.running, item=item)

    @precondition(lambda self: self.running)
    @rule()
    def say(self) -> None:
        self.tell("item/agentMessage/delta", turnId=self.running, itemId=f"m{self.number()}", delta=f"<{self.running}>")

    @precondition(lambda self: self.running and self.pending_steers)
    @rule()
    def note_steer(self) -> None:
        self.note(self.pending_steers.pop(0))

    @precondition(lambda self: self.running)
    @rule()
    def ask(self) -> None:
        number = 1_000 + self.number()
        self.questions.add(number)
        self.tell("item/commandExecution/requestApproval", number, turnId=self.running, itemId="c", command="ls")

    @precondition(lambda self: self.running)
    @rule(fails=st.booleans())
    def complete(self, fails: bool) -> None:
        status = "interrupted" if self.interrupted else "failed" if fails else "completed"
        self.tell("turn/completed", turn={"id": self.running, "status": status})
        self.over.append(str(self.running))
        self.running, self.interrupted = None, False
        self.pending_steers.clear()

    @precondition(lambda self: self.over)
    @rule(data=st.data())
    def say_late(self, data: st.DataObject) -> None:
        codex_id = data.draw(st.sampled_from(self.over[-2:]))
        self.tell("item/agentMessage/delta", turnId=codex_id, itemId="late", delta=f"<{codex_id}>")
        self.tell("turn/completed", turn={"id": codex_id, "status": "failed"})

    # What holds

    @invariant()
    def every_word_is_of_its_own_turn(self) -> None:
        for said in self.heard:
            if isinstance(said, Text):
                codex_id = said.text.strip().strip("<>")
                assert said.turn_id in self.hosts[codex_id]

    @invariant()
    def nothing_is_told_twice_or_after_the_end(self) -> None:
        over: set[str] = set()
        told: set[str] = set()
        for said in self.heard:
            if isinstance(said, Steered):
                assert said.message_id not in told
                told.add(said.message_id)
                assert said.turn_id not in over or self.steered[said.message_id][1]
            elif isinstance(said, Text | Ended):
                assert said.turn_id not in over
            if isinstance(said, Ended):
                over.add(said.turn_id)
        assert len(self.answered_questions) == len(set(self.answered_questions))

    def teardown(self) -> None:
        """Let everything come to its end: then every prompt has ended, and of every steer it is known what became."""
        for _ in range(10 * (len(self.inbox) + len(self.answers) + 3)):
            while self.inbox:
                self.read_request()
            while self.answers:
                self.hear(self.answers.pop(0))
            if self.beginning:
                self.begin(True)
            if self.running:
                self.complete(False)
        assert [len(self.ends(turn_id)) for turn_id in self.prompted] == [1] * len(self.prompted)
        told = [said.message_id for said in self.heard if isinstance(said, Steered)]
        assert sorted(told) == sorted(self.steered)
        self.every_word_is_of_its_own_turn()
        self.nothing_is_told_twice_or_after_the_end()


TestCodexInAnyOrder = CodexInAnyOrder.TestCase
TestCodexInAnyOrder.settings = settings(max_examples=60, stateful_step_count=40)

"""A session's life in miniature: any command at any time, with right and stale names, held against the plain model.

Whoever drives it says what happens next by numbers (`choose`): Hypothesis, which shrinks what it finds, or a seeded
random generator, which tries much more in the same time.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from antiphon.core import commands as c
from antiphon.core import events as e
from antiphon.core.decide import Decision, Given, Refused, Repeated, Rules, decide
from antiphon.core.evolve import Record as CoreRecord
from antiphon.core.evolve import fold
from antiphon.core.session import Deadline, Message, Permission, Problem, Session, Turn, Usage
from antiphon.core.step import Step
from antiphon.core.words import OnCrash, WhenBusy
from models.journal import Journal
from models.session import DONE, NOTHING, Model, Outcome, Record

RULES = Rules(queue_max=6, collect_max=2, attempts_max=2, collect_quiet_s=4)
SESSION = "ses_1"
MODES: tuple[WhenBusy, ...] = ("refuse", "queue", "steer", "collect", "interrupt", "rollback")
ON_CRASH: tuple[OnCrash, ...] = ("interrupt", "retry_if_untouched", "resume", "resume")
RESETS: Record = {"reset": {"idle_minutes": 5}}
PATCHES: dict[str, tuple[Any, ...]] = {
    "title": (None, "A", "B"),
    "model": (None, "A"),
    "cwd": (None, "/a"),
    "when_busy": (None, "queue", "collect", "steer"),
    "labels": (None, {}, {"a": "1"}, {"a": None}, {"b": "2", "a": "3"}),
    "settings": (
        *[RESETS, {"reset": None}, {"x": 1}, {"x": None, "reset": None}, {"collect_overflow": "summarise"}],
        *[{"collect_overflow": None, "collect_senders": "together"}, {"collect_senders": None}],
    ),
}

_T = TypeVar("_T")


def told(decision: Decision) -> Outcome:
    """What a caller is told of a decision, in the words of the model."""
    if isinstance(decision, Refused):
        return ("refused", decision.error.code)
    if isinstance(decision, Repeated):
        return ("same", decision.message_id)
    return DONE if decision else NOTHING


def comparable(decision: Decision) -> Any:
    """A decision as a value: errors compare by identity."""
    if isinstance(decision, Refused):
        error = decision.error
        return (type(error), error.code, error.detail, error.ids, error.retry_after_s)
    return decision


def counted(usage: Usage | None) -> tuple[int, int] | None:
    """A usage as the model keeps it."""
    return usage and (usage.input_tokens, usage.output_tokens)


class Life:
    """A host, a store and their clients, as small as can be.

    Attributes:
        choose: Says what happens next: given n, a number from 0 up to but not n.
        log: Every command so far.
        session: The session as the store would load it.
        records, entries: What the store would hold, read back from JSON.
        step: The step that is not committed yet.
    """

    def __init__(self, choose: Callable[[int], int], tell: Callable[[str], object]) -> None:
        self.choose, self.tell = choose, tell
        self.can_steer, self.can_roll_back = bool(choose(4)), bool(choose(4))
        self.model = Model(
            queue_max=RULES.queue_max,
            collect_max=RULES.collect_max,
            attempts_max=RULES.attempts_max,
            quiet_ms=int(RULES.collect_quiet_s * 1000),
            steers=self.can_steer,
            rolls_back=self.can_roll_back,
        )
        self.now = self.model.now = 1_000_000
        self.session: Session | None = None
        self.folded: Session | None = None
        self.records: dict[str, CoreRecord] = {}
        self.entries: list[e.Entry] = []
        self.accepted_at: dict[str, int] = {}
        self.keyed: dict[str, tuple[str, str | None]] = {}
        self.journal = Journal()
        self.step: Step | None = None
        self.batching = False
        self.counts: dict[str, int] = {}
        self.begin()

    # What a host does around the core

    def do(self, command: c.Command, expected: Outcome) -> None:
        """Decide a command, see that it is answered as expected, and write what came of it, now or with the next."""
        self.tell(f"{command} -> {expected}")
        given = Given(now=self.now, rules=RULES, can_steer=self.can_steer, can_roll_back=self.can_roll_back)
        step = self.step = self.step or Step(self.session, given, session_id=SESSION)
        before, written = step.session, (len(step.entries), dict(step.records))
        frozen = msgspec.json.encode(before)
        once, twice = decide(before, command, given), decide(before, command, given)
        assert comparable(once) == comparable(twice), "the same input must always give the same answer"
        taken = step.take(command)
        assert told(taken) == expected, f"{command} was answered {told(taken)}, not {expected}"
        assert msgspec.json.encode(before) == frozen, "deciding must not change the session it is given"
        if expected != DONE:
            assert step.session is before, f"{expected} changed the session (P5)"
            assert (len(step.entries), step.records) == written, f"{expected} left something to write (P5)"
        if not self.batching:
            self.commit()

    def commit(self) -> None:
        """Write the step as a store would: through JSON."""
        step, self.step = self.step, None
        if step is None:
            return
        step.seal()
        wire = msgspec.json.encode(step.entries)
        entries = msgspec.json.decode(wire, type=list[e.Entry])
        assert entries == step.entries, "an entry must equal what a store reads back"
        assert [e.event(entry) for entry in entries] == step.events, "an event must outlive its journal"
        self.entries += entries
        self.journal.read(msgspec.json.decode(wire))
        self.journal.rest()
        for entry, event in zip(entries, step.events, strict=True):
            if isinstance(event, e.MessageAccepted):
                self.accepted_at[event.message_id] = entry.sequence
                if event.idempotency_key:
                    self.keyed[event.idempotency_key] = (event.message_id, event.digest)
        for id, record in step.records.items():
            assert id == record.id
            self.records[id] = msgspec.json.decode(msgspec.json.encode(record), type=type(record))
        self.folded = fold(self.folded, entries)
        self.session = msgspec.json.decode(msgspec.json.encode(step.session), type=Session | None)
        assert self.session == step.session == self.folded, "the snapshot must be the fold of the journal"

    def end(self) -> None:
        """What must hold in the end: the whole journal, folded at once, is the session."""
        self.commit()
        assert fold(None, self.entries) == self.session

    # Names, right ones and others

    def new(self, kind: str) -> str:
        """A fresh id."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return f"{kind}_{self.counts[kind]}"

    def one_of(self, *values: _T) -> _T:
        """One of the values."""
        return values[self.choose(len(values))]

    def name(self, kind: str, current: list[str], known: dict[str, Any]) -> str:
        """An id: mostly of what is current, sometimes of what was, rarely of what never was."""
        which = self.choose(12)
        if which == 11 or not known:
            return f"{kind}_unknown"
        others = list(known)
        return current[which % len(current)] if current and which < 9 else others[-1 - which % len(others)]

    def a_message(self) -> str:
        return self.name("msg", self.model.queue, self.model.messages)

    def a_turn(self) -> str:
        return self.name("turn", [self.model.turn] if self.model.turn else [], self.model.turns)

    def a_permission(self) -> str:
        return self.name("perm", self.model.pending(), self.model.permissions)

    def a_run(self) -> str:
        run = self.model.run
        return run["id"] if run and self.choose(4) else "run_1"

    def a_usage(self) -> tuple[int, int] | None:
        return self.one_of(None, (3, 4), (9, 9))

    # Clients

    def begin(self) -> None:
        """Nothing is possible before the session is there; then it is created."""
        for command in (c.StopSession(), c.AgentOpened(run_id="run_0"), c.ShutDown()):
            self.do(command, ("refused", "session_not_found"))
        edited: Record = {"title": None, "model": "m", "cwd": None, "labels": {"a": "0"}}
        edited |= {"when_busy": self.one_of(None, None, "collect"), "settings": self.one_of({}, RESETS)}
        self.do(c.CreateSession(session_id=SESSION, key="k", agent="echo", **edited), self.model.create(**edited))

    def send(self) -> None:
        key, body = self.one_of(None, None, None, "k1", "k2"), self.one_of("one", "one", "two")
        wanted = self.one_of(None, None, None, self.model.generation, self.model.generation - 1)
        mode: WhenBusy | None = self.one_of(None, *MODES)
        id, prior = self.new("msg"), self.keyed.get(key or "")
        command = c.SendMessage(
            message_id=id,
            text=body,
            when_busy=mode,
            idempotency_key=key,
            digest=body,
            prior=prior,
            expected_generation=wanted,
            sender=self.one_of(None, None, "ann", "bob"),
            deadline=self.a_deadline(),
        )
        limits = msgspec.to_builtins(command.deadline) if command.deadline else None
        self.do(command, self.model.send(id, mode, key, body, wanted, command.sender, limits))

    def a_deadline(self) -> Deadline | None:
        limits = ({"waiting_ms": 5000}, {"running_ms": 5000}, {"total_ms": 9000}, {"waiting_ms": 1, "running_ms": 90})
        return None if self.choose(3) else Deadline(**self.one_of(*limits))

    def send_plainly(self, mode: WhenBusy | None = None) -> str:
        id, chosen = self.new("msg"), mode or MODES[self.choose(len(MODES))]
        command = c.SendMessage(message_id=id, text="plain", when_busy=chosen)
        self.do(command, self.model.send(id, chosen, None, "plain", None))
        return id

    def edit(self) -> None:
        id, text = self.a_message(), self.one_of(None, "new")
        mode: WhenBusy | None = self.one_of(None, *MODES)
        self.do(c.EditMessage(message_id=id, text=text, when_busy=mode), self.model.edit(id, text, mode))

    def withdraw(self) -> None:
        id = self.a_message()
        self.do(c.WithdrawMessage(message_id=id), self.model.withdraw(id))

    def reorder(self) -> None:
        queue, at = self.model.queue, self.choose(4)
        order = [*queue[at:], *reversed(queue[:at])]
        flaw = self.choose(12)
        if flaw < 3:
            order = [order[1:], [*order, *order[:1]], [*order[1:], "msg_unknown"]][flaw]
        self.do(c.ReorderQueue(order=tuple(order)), self.model.reorder(order))

    def pause(self) -> None:
        self.do(c.PauseQueue(), self.model.pause(True))

    def go_on(self) -> None:
        if self.model.paused or not self.choose(6):
            self.do(c.ContinueQueue(), self.model.pause(False))

    def cancel_message(self) -> None:
        running = self.model.running
        names = running["messages"] if running and self.choose(2) else self.model.queue
        id = self.name("msg", names, self.model.messages)
        self.do(c.CancelMessage(message_id=id), self.model.cancel_message(id))

    def cancel_queue(self) -> None:
        self.do(c.CancelQueue(), self.model.cancel_queue())

    def patch(self) -> None:
        changes: Record = {}
        for _ in range(1 + self.choose(2)):
            field = self.one_of(*PATCHES)
            changes[field] = self.one_of(*PATCHES[field])
        revision = self.one_of(None, None, self.model.revision, self.model.revision, self.model.revision - 1)
        unknown = self.one_of({}, {}, {"key": "other"})
        command = c.PatchSession(changes=changes | unknown, if_match=revision)
        self.do(command, self.model.patch(changes, revision))

    def stop(self) -> None:
        self.do(c.StopSession(), self.model.stop())

    def resume(self) -> None:
        if self.model.life == "stopped" or not self.choose(6):
            self.do(c.ResumeSession(), self.model.resume())

    def clear(self) -> None:
        self.do(c.ClearSession(), self.model.clear())

    def create_again(self) -> None:
        self.do(c.CreateSession(session_id=SESSION, agent="echo"), self.model.create())

    def delete(self) -> None:
        if len(self.model.turns) > 1 and not self.choose(6):
            self.do(c.DeleteSession(), self.model.delete())

    def cancel(self) -> None:
        turn, queue = self.a_turn(), not self.choose(4)
        self.do(c.CancelTurn(turn_id=turn, queue=queue), self.model.cancel(turn, queue=queue))

    def answer(self) -> None:
        id, decision = self.a_permission(), self.one_of("allow", "deny", "allow", "deny", "perhaps")
        command = c.AnswerPermission(permission_id=id, decision=decision, by="ann", note="so")
        self.do(command, self.model.answer(id, decision, "ann"))

    # The owner and the clock

    def start(self) -> None:
        turn = self.new("turn")
        self.do(c.StartTurn(turn_id=turn), self.model.start(turn))

    def a_turn_runs(self) -> None:
        if self.model.life != "active" or self.model.turn:
            return
        if not self.model.queue:
            self.send_plainly()
        self.go_on()
        self.start()
        more: WhenBusy | None = self.one_of(None, None, "queue", "collect", "steer")
        if more:
            self.send_plainly(more)
        if self.choose(2):
            self.agent_speaks()

    def steer(self) -> None:
        turn, id = self.a_turn(), self.a_message()
        self.do(c.SteerTurn(turn_id=turn, message_id=id), self.model.steer(turn, id))

    def a_steer_is_handed_over(self) -> None:
        if self.model.status() == "running":
            turn, id = self.model.turn or "", self.send_plainly("steer")
            self.do(c.SteerTurn(turn_id=turn, message_id=id), self.model.steer(turn, id))

    def host_dies(self) -> None:
        on_crash: OnCrash = self.one_of(*ON_CRASH)
        can_resume = bool(self.choose(3))
        self.do(c.HostDied(on_crash=on_crash, can_resume=can_resume), self.model.host_died(on_crash, can_resume))
        session = self.current
        assert session is not None
        left = (session.running, session.agent_run, session.permissions)
        assert session.lifecycle == "deleted" or left == (None, None, ()), "something outlived the host (P11)"

    def shut_down(self) -> None:
        on_crash: OnCrash = self.one_of(*ON_CRASH)
        can_resume = bool(self.choose(3))
        command = c.ShutDown(on_crash=on_crash, can_resume=can_resume)
        self.do(command, self.model.shut_down(on_crash, can_resume))

    def deadlines_pass(self) -> None:
        self.do(c.TimePassed(), self.model.time_passed())

    def deadline(self) -> None:
        id = self.a_permission()
        self.do(c.ExpirePermission(permission_id=id), self.model.expire(id))

    def time_passes(self) -> None:
        self.commit()
        self.now += int(self.one_of(0.001, 0.04, 0.04, 0.07, 1, 4.9, 5, 60) * 60_000)
        self.model.now = self.now

    def several_in_one_step(self) -> None:
        self.commit()
        self.batching = not self.batching

    # The agent

    def agent_opens(self) -> None:
        run = self.new("run") if self.choose(4) else self.a_run()
        generation = self.one_of(None, self.model.generation, max(1, self.model.generation - 1))
        token = self.one_of(None, "t1", "t2")
        command = c.AgentOpened(run_id=run, generation=generation, pid=7, resume_token=token)
        self.do(command, self.model.opened(run, generation, token))

    def agent_can_resume(self) -> None:
        run, token = self.a_run(), self.one_of("t1", "t2")
        self.do(c.AgentCanResume(run_id=run, resume_token=token), self.model.can_resume(run, token))

    def agent_remarks(self) -> None:
        self.do(c.AgentWrote(text="retrying"), self.model.wrote())

    def agent_speaks(self) -> None:
        turn, kind = self.a_turn(), self.one_of("text", "text", "thought", "usage")
        what: Any = f"{turn}:{self.new('piece')} " if kind != "usage" else (self.choose(9), 1)
        said: c.Said = e.TurnText(turn_id=turn, text=str(what))
        if kind == "thought":
            said = e.TurnThought(turn_id=turn, text=what)
        if kind == "usage":
            said = e.TurnUsage(turn_id=turn, usage=Usage(input_tokens=what[0], output_tokens=1))
        self.do(c.AgentSaid(turn_id=turn, said=said), self.model.said(turn, kind, what))

    def agent_speaks_on(self) -> None:
        turn = self.a_turn()
        texts = tuple(f"{turn}:{self.new('piece')} " for _ in range(1 + self.choose(3)))
        self.do(c.AgentSpoke(turn_id=turn, texts=texts), self.model.said(turn, "text", "".join(texts)))

    def agent_uses_a_tool(self) -> None:
        turn, tool, kind = self.a_turn(), self.one_of("t1", "t2"), self.one_of("tool_started", "tool_ended")
        said: c.Said = e.TurnToolStarted(turn_id=turn, tool_id=tool, name="sh", input={"command": ["ls"]})
        if kind == "tool_ended":
            said = e.TurnToolEnded(turn_id=turn, tool_id=tool, outcome="completed", output=["a", 1])
        self.do(c.AgentSaid(turn_id=turn, said=said), self.model.said(turn, kind, tool))

    def agent_says_an_old_turns_words_in_the_running_one(self) -> None:
        turn, other = self.model.turn, self.a_turn()
        if turn and other != turn:
            self.do(c.AgentSaid(turn_id=turn, said=e.TurnText(turn_id=other, text="stale")), NOTHING)

    def agent_asks(self) -> None:
        pending = self.model.pending()
        turn, id = self.a_turn(), pending[0] if pending and not self.choose(4) else self.new("perm")
        command = c.AgentAsked(permission_id=id, turn_id=turn, question="May I?", options=({"id": "o"},))
        self.do(command, self.model.asked(id, turn))

    def agent_was_steered(self) -> None:
        handed = [id for id, message in self.model.messages.items() if message["handed"]]
        turn, id, taken = self.a_turn(), self.name("msg", handed, self.model.messages), bool(self.choose(2))
        self.do(c.AgentSteered(turn_id=turn, message_id=id, taken=taken), self.model.steered(turn, id, taken))

    def agent_begins_by_itself(self) -> None:
        turn = self.new("turn")
        self.do(c.AgentBegan(turn_id=turn), self.model.began(turn))

    def agent_ends(self) -> None:
        turn, error, cut = self.a_turn(), self.one_of(None, None, "agent_failed"), not self.choose(4)
        counts = self.a_usage()
        command = c.AgentEnded(
            turn_id=turn,
            error=Problem(code=error, detail="It failed.") if error else None,
            cancelled=cut,
            usage=Usage(input_tokens=counts[0], output_tokens=counts[1]) if counts else None,
        )
        self.do(command, self.model.ended(turn, error, cut, counts))

    def agent_exits(self) -> None:
        run, turn = self.a_run(), self.one_of(None, self.a_turn())
        command = c.AgentExited(run_id=run, turn_id=turn, exit_code=self.one_of(None, 1), reason="exited")
        self.do(command, self.model.exited(run, turn))

    def agent_cannot_be_started(self) -> None:
        turn = self.a_turn()
        self.do(c.AgentUnavailable(turn_id=turn, detail="Not installed."), self.model.unavailable(turn))

    # What must hold at every moment

    @property
    def current(self) -> Session | None:
        """The session after the last command, committed or not."""
        return self.step.session if self.step else self.session

    def check(self) -> None:
        """All is as the model says: the session, the records, and, between commits, the journal."""
        session = self.current
        assert session is not None
        self._check_session(session)
        self._check_records(session)
        if self.step is None:
            self._check_journal(session)

    def _check_session(self, session: Session) -> None:
        model, running = self.model, session.running
        assert session.ending == ()
        assert (session.lifecycle, session.generation, session.revision) == (
            model.life,
            model.generation,
            model.revision,
        )
        assert [message.id for message in session.inbox] == model.queue
        assert (running.turn.id if running else None) == model.turn
        assert session.resume_token == model.token
        assert (session.message_at, session.last_turn) == (model.spoken_at, model.last_end)
        assert session.status() == model.status()
        assert bool(session.paused_at) == model.paused
        assert [message.id for message in (running.messages if running else ())] == model.answered_by_turn()
        assert {name: getattr(session, name) for name in model.edited} == model.edited
        assert [permission.id for permission in session.permissions] == model.pending()
        run = session.agent_run
        assert (run and {"id": run.id, "generation": run.generation}) == model.run
        assert [message.id for message in session.steerable] == [id for id in model.queue if model.can_be_steered(id)]
        if running:
            turn = model.turns[running.turn.id]
            shown = (running.cancelling, running.rollback, running.touched, list(running.open_tools))
            assert shown == (turn["cancelling"], turn["rollback"], turn["touched"], turn["tools"])

    def _check_records(self, session: Session) -> None:
        records = {**self.records, **(self.step.records if self.step else {})}
        model, running = self.model, session.running
        assert set(records) == {*model.messages, *model.turns, *model.permissions}
        for id, record in records.items():
            if isinstance(record, Message):
                self._check_message(record, model.messages[id])
            elif isinstance(record, Turn):
                self._check_turn(record, model.turns[id])
            else:
                assert isinstance(record, Permission)
                shown = (record.state, record.turn_id, record.by)
                assert shown == (
                    model.permissions[id]["state"],
                    model.permissions[id]["turn"],
                    model.permissions[id]["by"],
                )
        live = (*session.inbox, *session.permissions, *((running.turn, *running.messages) if running else ()))
        assert all(records[value.id] == value for value in live), "a record differs from the session's own value"

    def _check_message(self, record: Message, model: Record) -> None:
        assert (record.state, record.turn_id, record.delivered_as) == (model["state"], model["turn"], model["as"])
        assert (record.when_busy, record.generation, record.session_key) == (model["mode"], model["generation"], "k")
        assert (record.error and record.error.code, counted(record.usage)) == (model["error"], model["usage"])
        assert (record.steering, record.declined_by) == (model["handed"], model["declined_by"])
        assert [record.accepted_at, record.started_at, record.ended_at] == model["times"]
        assert record.attempts == model["attempts"]
        assert record.resumed == model["resumed"] or record.state != "running"
        assert record.sequence == self.accepted_at.get(record.id, record.sequence)
        assert (record.sender, record.substitute) == (model["sender"], model["instead"])
        assert (record.left_at is not None) == model["left"]

    def _check_turn(self, record: Turn, model: Record) -> None:
        assert (record.state, record.origin, record.generation) == (
            model["state"],
            model["origin"],
            model["generation"],
        )
        assert list(record.message_ids) == model["messages"]
        assert (record.error and record.error.code, counted(record.usage)) == (model["error"], model["usage"])
        assert [record.started_at, record.ended_at] == model["times"]
        assert record.rolled_back == (model["rollback"] and record.state != "running")

    def _check_journal(self, session: Session) -> None:
        model, journal = self.model, self.journal
        assert journal.accepted == set(model.messages), "accepted messages are in the journal, refused ones are not"
        assert journal.queue == model.queue
        ended = {id: (m["state"], m["turn"]) for id, m in model.messages.items() if m["times"][2] is not None}
        assert journal.ends == ended
        assert {id: turn["said"] for id, turn in model.turns.items()} == journal.replies, "a reply is not its turn's"
        assert journal.status == model.status() or model.gone, "viewers were told another status"
        turn = self.records.get(list(model.turns)[-1]) if model.turns else None
        if isinstance(turn, Turn):
            entries = self.entries[turn.first_sequence - 1 : turn.last_sequence]
            texts = [entry.data["text"] for entry in entries if entry.type == "turn.text"]
            assert "".join(texts) == journal.replies[turn.id], "a turn's sequences do not enclose its reply"


Act = Callable[[Life], object]
CLIENTS: tuple[Act, ...] = (
    *[Life.send, Life.send, Life.send_plainly, Life.send_plainly, Life.edit, Life.edit, Life.withdraw],
    *[Life.reorder, Life.patch, Life.patch, Life.stop, Life.resume, Life.resume, Life.clear, Life.create_again],
    *[Life.delete, Life.cancel, Life.answer, Life.answer, Life.pause, Life.go_on, Life.go_on, Life.cancel_message],
    *[Life.cancel_message, Life.cancel_queue],
)
OWNER: tuple[Act, ...] = (
    *[Life.start, Life.start, Life.a_turn_runs, Life.a_turn_runs, Life.a_turn_runs, Life.steer],
    *[Life.a_steer_is_handed_over, Life.a_steer_is_handed_over, Life.host_dies, Life.shut_down, Life.deadline],
    *[Life.time_passes, Life.time_passes, Life.several_in_one_step, Life.deadlines_pass, Life.deadlines_pass],
)
AGENT: tuple[Act, ...] = (
    *[Life.agent_opens, Life.agent_opens, Life.agent_can_resume, Life.agent_remarks, Life.agent_begins_by_itself],
    *[
        Life.agent_speaks,
        Life.agent_speaks,
        Life.agent_speaks_on,
        Life.agent_uses_a_tool,
        Life.agent_uses_a_tool,
        Life.agent_was_steered,
    ],
    *[Life.agent_was_steered, Life.agent_asks, Life.agent_asks, Life.agent_exits, Life.agent_cannot_be_started],
    *[Life.agent_ends, Life.agent_ends, Life.agent_says_an_old_turns_words_in_the_running_one],
)
"""What can happen, as often as it stands here."""

"""A session as a value, and the records of its messages, turns and permissions that outlive it in the store."""

import math
from typing import Any

import msgspec

from antiphon.core.words import (
    Again,
    CancelReason,
    Delivery,
    Lifecycle,
    MessageState,
    Origin,
    SessionStatus,
    Substitute,
    TurnState,
    WhenBusy,
)


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An immutable value that the journal and the store can hold. All times are milliseconds since the epoch, UTC."""


class Usage(Value, frozen=True, kw_only=True, omit_defaults=False):
    """What a turn cost. Counters are cumulative over the turn."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    @property
    def sound(self) -> bool:
        """Whether these are numbers that can be kept: an agent may say anything, and its turn must end all the same."""
        read, written = self.input_tokens, self.output_tokens
        whole = type(read) is int and type(written) is int
        return whole and read >= 0 and written >= 0 and 0 <= self.cost_usd < math.inf


class Problem(Value, frozen=True, kw_only=True):
    """Why something failed: a stable code of the contract and a sentence that a person can act on."""

    code: str
    detail: str


class Deadline(Value, frozen=True, kw_only=True):
    """For how long (ms) a message may wait for its first turn, run in one, and be on its way in all; None for ever."""

    waiting_ms: int | None = None
    running_ms: int | None = None
    total_ms: int | None = None


class Message(Value, frozen=True, kw_only=True):
    """One input that the host accepted. Its text is not here but beside it: a session's state stays small.

    `turn_id` names the turn that answers it, from that turn's start on; `generation` is the one it runs in.
    """

    id: str
    session_id: str
    session_key: str | None = None
    generation: int
    sequence: int
    """That of its `message.accepted`."""
    state: MessageState = "queued"
    when_busy: WhenBusy
    delivered_as: Delivery | None = None
    turn_id: str | None = None
    error: Problem | None = None
    accepted_at: int
    started_at: int | None = None
    ended_at: int | None = None
    usage: Usage | None = None
    steering: bool = False
    """A steer was handed to the agent in the running turn; it waits on at its place unless the agent took it."""
    declined_by: str | None = None
    """The turn whose agent did not take this steer: it is not handed to that one again."""
    attempts: int = 0
    """How many turns were started for it: more than one only after a crash."""
    resumed: bool = False
    """Its turn was cut by a crash and the agent still has it: the next prompt asks to go on, not anew."""
    sender: str | None = None
    """Who sent it, in the words of the client that did, else the name of that client's token."""
    deadline: Deadline | None = None
    substitute: Substitute | None = None
    """What is done, or was done, instead of what `when_busy` asks for."""
    left_at: int | None = None
    """The session's sequence when it ended before its turn did; its reply is what the turn had said until then."""

    @property
    def deadline_at(self) -> int | None:
        """When (ms) its deadline passes as it stands: what limits it in all, and what limits its waiting or running.

        Waiting is limited until its first turn only: what a crash makes wait again did not wait too long.
        """
        if self.deadline is None:
            return None
        limits = [(self.accepted_at, self.deadline.total_ms)]
        if self.started_at is not None:
            limits.append((self.started_at, self.deadline.running_ms))
        elif not self.attempts:
            limits.append((self.accepted_at, self.deadline.waiting_ms))
        return min((since + limit for since, limit in limits if limit is not None), default=None)


class Turn(Value, frozen=True, kw_only=True):
    """One run of the agent. Its reply is the `turn.text` events between its first and its last sequence, joined."""

    id: str
    session_id: str
    generation: int
    state: TurnState = "running"
    origin: Origin = "message"
    message_ids: tuple[str, ...] = ()
    started_at: int
    ended_at: int | None = None
    first_sequence: int
    last_sequence: int | None = None
    error: Problem | None = None
    usage: Usage | None = None
    rolled_back: bool = False
    mark: str | None = None
    """Where the agent's conversation stood at its end, in the words of its adapter: a branch can begin there."""


class Permission(Value, frozen=True, kw_only=True):
    """A question of the agent to a person. It is pending until it is answered or expires, exactly once."""

    id: str
    session_id: str
    turn_id: str
    question: str
    tool: str | None = None
    options: tuple[dict[str, Any], ...] = ()
    requested_at: int
    deadline_at: int | None = None
    state: str = "pending"
    """`pending`, then one of `allowed`, `denied`, `expired`."""
    option_id: str | None = None
    note: str | None = None
    by: str | None = None
    answered_at: int | None = None


class Running(Value, frozen=True, kw_only=True):
    """The turn that runs, with what only matters while it does."""

    turn: Turn
    messages: tuple[Message, ...] = ()
    cancelling: CancelReason | None = None
    rollback: bool = False
    again: Again | None = None
    """What the session's `on_crash` makes of its messages once the agent has stopped for a shutdown."""
    touched: bool = False
    """Something was heard from the agent in this turn: text, a thought, a tool, a question."""
    heard_at: int
    """When something was last heard, or when the turn started."""
    stalled_at: int | None = None
    """When it was found to be stalled; see `stalled`."""
    open_tools: tuple[str, ...] = ()

    @property
    def stalled(self) -> bool:
        """Whether it was found to be stalled, and nothing was heard since."""
        return self.stalled_at is not None and self.heard_at < self.stalled_at


class AgentRun(Value, frozen=True, kw_only=True):
    """The agent process that serves the session just now. A restarted host never inherits one."""

    id: str
    generation: int
    pid: int | None = None
    started_at: int


class Branch(Value, frozen=True, kw_only=True):
    """Where a session comes from: a turn of another one. `mark` is there until the transcript is cleared."""

    session_id: str
    turn_id: str
    mark: str | None = None


class Session(Value, frozen=True, kw_only=True):
    """All that `decide` needs to know of a session. Everything here is the fold of its journal.

    Identity is `id` and `generation`; `sequence` numbers the last event; `revision` is raised only by a change of
    what a person can edit (title, labels, model, settings, when_busy, cwd).
    """

    id: str
    key: str | None = None
    generation: int = 1
    sequence: int = 0
    revision: int = 1
    agent: str
    cwd: str | None = None
    model: str | None = None
    title: str | None = None
    labels: dict[str, str] = {}
    when_busy: WhenBusy | None = None
    settings: dict[str, Any] = {}
    lifecycle: Lifecycle = "active"
    paused_at: int | None = None
    """Since when a person lets no turn start; messages are accepted and wait."""
    running: Running | None = None
    ending: tuple[Message, ...] = ()
    """Messages whose turn has ended in the commit that is being made; always empty between commits."""
    inbox: tuple[Message, ...] = ()
    permissions: tuple[Permission, ...] = ()
    """The pending ones."""
    agent_run: AgentRun | None = None
    resume_token: str | None = None
    branch: Branch | None = None
    last_turn: TurnState | None = None
    created_at: int
    active_at: int
    """When a person, or the agent on a person's behalf, last did something here; what lists are ordered by."""
    message_at: int | None = None
    """When the generation's last message was accepted: the only activity that a reset policy counts."""
    turns: int = 0

    def status(self) -> SessionStatus:
        """What a person sees."""
        if self.lifecycle != "active":
            return "stopped"
        if self.running:
            if self.permissions:
                return "asking"
            return "stalled" if self.running.stalled else "running"
        if self.inbox and not self.paused_at:
            return "starting"
        if self.last_turn == "failed":
            return "errored"
        return "idle" if self.agent_run else "dormant"

    @property
    def unsettled(self) -> bool:
        """Whether a host that starts must look at this session: something runs, waits or was left behind."""
        return self.lifecycle != "deleted" and bool(self.running or self.inbox or self.agent_run or self.permissions)

    @property
    def may_run(self) -> bool:
        """Whether something waits that runs as soon as its time and a place for its agent have come."""
        return bool(self.inbox) and self.lifecycle == "active" and not self.paused_at

    @property
    def steerable(self) -> tuple[Message, ...]:
        """The waiting steers that can be handed to the running turn now, in the order in which they wait."""
        running = self.running
        if running is None or running.cancelling:
            return ()
        return tuple(
            message
            for message in self.inbox
            if message.when_busy == "steer" and not message.steering and message.declined_by != running.turn.id
        )

    def holds(self, message_id: str) -> bool:
        """Whether that message waits or runs."""
        running = self.running.messages if self.running else ()
        return any(message.id == message_id for message in (*self.inbox, *running))

    def waiting(self, message_id: str) -> Message | None:
        """The queued message of that id."""
        return next((message for message in self.inbox if message.id == message_id), None)

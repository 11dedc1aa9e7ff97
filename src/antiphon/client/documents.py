"""What the host shows of sessions, messages, turns and the rest, as read-only objects.

A document is the host's JSON with its known fields as attributes. What a newer host adds stays reachable in `document`,
so printing a document as JSON loses nothing. They are not dataclasses for one reason: ten of those cost the command
line 25 ms at every start.
"""

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, cast

from antiphon.client.errors import UnexpectedAnswer
from antiphon.core.words import Delivery as DeliveredAs
from antiphon.core.words import MessageState, Origin, SessionStatus, Substitute, TurnState

Json = dict[str, Any]
D = TypeVar("D", bound="Document")

ENDS: frozenset[str] = frozenset({"answered", "failed", "cancelled", "interrupted", "withdrawn"})
"""The states in which a message stays for good."""

_SHOWN = ("id", "key", "state", "status", "type")


class Document:
    """A JSON object of the host. A known field that the host left out is None."""

    __slots__ = ("document",)
    document: Json

    def __init__(self, document: Json) -> None:
        self.document = document

    @classmethod
    def read(cls, document: Any) -> Self:
        """The document in an answer.

        Raises:
            UnexpectedAnswer: It is not a JSON object.
        """
        if not isinstance(document, dict):
            raise UnexpectedAnswer(f"Expected a JSON object for a {cls.__name__.lower()} and got something else.")
        return cls(cast("Json", document))

    def __getattr__(self, name: str) -> Any:
        if name in type(self).__annotations__ and name != "document":
            return self.document.get(name)
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.document == self.document

    def __hash__(self) -> int:
        return hash((type(self), self.document.get("id")))

    def __repr__(self) -> str:
        shown = {name: self.document[name] for name in _SHOWN if name in self.document}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


class Problem(Document):
    """Why a turn failed."""

    __slots__ = ()
    code: str
    detail: str


class Usage(Document):
    """What a turn cost."""

    __slots__ = ()
    input_tokens: int
    output_tokens: int
    cost_usd: float


class Outcome(Document):
    """What a receipt and a turn have in common: an error and a cost, each None where there is none."""

    __slots__ = ()

    @property
    def error(self) -> Problem | None:
        """Why it failed."""
        error = self.document.get("error")
        return Problem.read(error) if error else None

    @property
    def usage(self) -> Usage | None:
        """What it cost."""
        usage = self.document.get("usage")
        return Usage.read(usage) if usage else None


class Receipt(Outcome):
    """What became of a message, or what it is waiting for. Times are RFC 3339 UTC."""

    __slots__ = ()
    id: str
    session_id: str
    session_key: str | None
    generation: int
    turn_id: str | None
    state: MessageState
    reply: str | None
    when_busy: str
    delivered_as: DeliveredAs | None
    position: int | None
    waiting_for: str | None
    accepted_at: str
    started_at: str | None
    ended_at: str | None
    substitute: Substitute | None
    sender: str | None
    deadline_at: str | None

    @property
    def ended(self) -> bool:
        """Whether the message has reached its end."""
        return self.state in ENDS


class Session(Document):
    """A session as it is now. `turn_id` is the running turn's; `queued` counts what waits; `paused_at` says since when
    nothing of it may start."""

    __slots__ = ()
    id: str
    key: str | None
    generation: int
    sequence: int
    revision: int
    status: SessionStatus
    agent: str
    cwd: str | None
    model: str | None
    title: str | None
    labels: dict[str, str]
    when_busy: str | None
    settings: Json
    turn_id: str | None
    queued: int
    paused_at: str | None
    host: str | None
    forked_from: dict[str, str] | None
    turns: int
    created_at: str
    active_at: str

    @property
    def ref(self) -> str:
        """What a person calls the session: its key, else its id."""
        return self.key or self.id


class Turn(Outcome):
    """One run of the agent."""

    __slots__ = ()
    id: str
    session_id: str
    generation: int
    state: TurnState
    origin: Origin
    message_ids: list[str]
    reply: str | None
    started_at: str
    ended_at: str | None
    rolled_back: bool

    @property
    def ended(self) -> bool:
        """Whether the turn has ended."""
        return self.state != "running"


class Cancelled(Document):
    """The answer to a cancel: the state of the turn, or of the message. `confirmed` says that nothing of it is known to
    run any more; `message_ids` are those that ended without a turn of their own being stopped."""

    __slots__ = ()
    turn_id: str | None
    state: TurnState | MessageState
    confirmed: bool
    message_ids: list[str]


class Permission(Document):
    """A question of an agent to a person; `state` is `pending`, `allowed`, `denied` or `expired`."""

    __slots__ = ()
    id: str
    session_id: str
    session_key: str | None
    turn_id: str
    state: str
    question: str
    tool: str | None
    options: list[Json]
    requested_at: str
    deadline_at: str | None
    option_id: str | None
    note: str | None
    by: str | None
    answered_at: str | None


class Line(Document):
    """One entry of a transcript; `role` is `user` or `assistant`."""

    __slots__ = ()
    role: str
    text: str
    message_id: str | None
    turn_id: str | None
    state: str
    at: str | None


class Event(Document):
    """An entry of a session's journal. `gap` and `snapshot` tell that entries can't be served any more."""

    __slots__ = ()
    cursor: str
    session_id: str
    generation: int
    turn_id: str | None
    message_id: str | None
    type: str
    at: str
    data: Json


class Agent(Document):
    """An agent that the host knows; `missing` says what it lacks on that machine."""

    __slots__ = ()
    name: str
    capabilities: dict[str, bool]
    available: bool
    missing: str | None


class Token(Document):
    """A token for clients. `token`, the secret, is there only in the answer that made it."""

    __slots__ = ()
    id: str
    name: str
    scope: str
    token: str | None
    created_at: str


class SignInLink(Document):
    """A link that signs one browser in, once, for a minute. `path` goes behind the host's address."""

    __slots__ = ()
    path: str
    expires_at: str


class Webhook(Document):
    """Somebody who is told of ends; `state` is `active` or `disabled`. `secret`, with which deliveries are signed, is
    there only in the answer that made it."""

    __slots__ = ()
    id: str
    url: str
    events: list[str]
    session_id: str | None
    message_id: str | None
    description: str | None
    state: str
    disabled_because: str | None
    created_at: str
    secret: str | None


class Delivery(Document):
    """An event on its way to a webhook; `state` is `pending`, `delivered` or `dead`. `id` is the `webhook-id` of every
    try."""

    __slots__ = ()
    id: str
    webhook_id: str
    type: str
    session_id: str
    message_id: str | None
    state: str
    attempts: int
    status: int | None
    error: str | None
    happened_at: str
    next_at: str | None
    settled_at: str | None


class Retried(Document):
    """How many dead deliveries are tried again."""

    __slots__ = ()
    retried: int


class Run(Document):
    """What became of a run of a schedule: `sent`, `missed`, `overlapped` or `refused`."""

    __slots__ = ()
    due_at: str
    at: str
    outcome: str
    message_id: str | None
    detail: str | None


class Schedule(Document):
    """A message that is sent again and again; `state` is `active` or `paused`."""

    __slots__ = ()
    id: str
    session: str
    text: str
    cron: str
    time_zone: str
    missed: str
    overlap: str
    when_busy: str | None
    agent: str | None
    state: str
    next_runs: list[str]
    sent: int
    skipped: int
    created_at: str

    @property
    def last_run(self) -> Run | None:
        """What became of the last run."""
        run = self.document.get("last_run")
        return Run.read(run) if run else None


class Peer(Document):
    """A host that shares the store; `state` is `serving`, `draining`, `drained` or `away`."""

    __slots__ = ()
    id: str
    name: str
    url: str
    version: str
    state: str
    this: bool
    sessions: int
    agents_open: int
    max_agents: int
    started_at: str | None
    seen_at: str | None


class HostStatus(Document):
    """How the host is."""

    __slots__ = ()
    version: str
    draining: bool
    store: str
    epoch: str
    agents_open: int
    max_agents: int
    sessions_awake: int
    sessions_owned: int
    turns_running: int
    messages_queued: int
    viewers: int
    uptime_s: float


class Page(Generic[D]):
    """A page of a list. `next_cursor` leads to the next one; it is None on the last."""

    __slots__ = ("items", "next_cursor")

    def __init__(self, items: list[D], next_cursor: str | None) -> None:
        self.items, self.next_cursor = items, next_cursor


def page_of(kind: type[D]) -> Callable[[Any], Page[D]]:
    """How to read a page of such documents."""

    def read(document: Any) -> Page[D]:
        fields = Document.read(document).document
        items = fields.get("items")
        if not isinstance(items, list):
            raise UnexpectedAnswer("Expected a page with `items` and got something else.")
        return Page([kind.read(item) for item in cast("list[Any]", items)], fields.get("next_cursor"))

    return read

"""The bodies and queries that clients send, as strict forms: unknown fields and wrong types are refused."""

import base64
import binascii
import math
from typing import Annotated, Any, Literal, Self, cast

import msgspec
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)

from antiphon.core.errors import InvalidRequest
from antiphon.core.names import KEY_MAX, key_problem
from antiphon.core.session import Deadline
from antiphon.core.words import SessionStatus, WhenBusy
from antiphon.host.service import NewMessage, NewSession
from antiphon.schedules.desk import NewSchedule
from antiphon.webhooks.desk import NewWebhook

SETTINGS_MAX = 16 << 10
SETTINGS_DEPTH_MAX = 32
INTEGER_BITS_MAX = 63


def check_key(key: str) -> str:
    """A session's key, if it can be one.

    Raises:
        ValueError: It can't; the error says why.
    """
    if problem := key_problem(key):
        raise ValueError(problem.removesuffix("."))
    return key


def _check_absolute(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError("must be an absolute path")
    return path


def _check_base64(data: str) -> str:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("must be base64 (RFC 4648 section 4)") from None
    return data


def _check_settings(settings: dict[str, Any]) -> dict[str, Any]:
    _check_plain(settings)
    if len(msgspec.json.encode(settings)) > SETTINGS_MAX:
        raise ValueError(f"must be at most {SETTINGS_MAX} bytes of JSON")
    return settings


def _check_plain(settings: dict[str, Any]) -> None:
    """Refuse numbers that JSON can't carry everywhere, and nesting that no setting needs."""
    left: list[tuple[Any, int]] = [(settings, 1)]
    while left:
        value, depth = left.pop()
        if depth > SETTINGS_DEPTH_MAX:
            raise ValueError(f"must not be nested deeper than {SETTINGS_DEPTH_MAX}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("must not contain numbers that are not finite")
        if isinstance(value, int) and value.bit_length() > INTEGER_BITS_MAX:
            raise ValueError("must not contain integers of more than 64 bits")
        if isinstance(value, dict):
            left += [(member, depth + 1) for member in cast("dict[str, Any]", value).values()]
        elif isinstance(value, list):
            left += [(item, depth + 1) for item in cast("list[Any]", value)]


KEY_SCHEMA: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": KEY_MAX,
    "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]+$",
    "not": {"pattern": "^ses_"},
}

SETTINGS_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": (
        f"At most {SETTINGS_MAX} bytes of JSON, nested at most {SETTINGS_DEPTH_MAX} deep, with finite numbers and "
        "integers of at most 64 bits."
    ),
}

Key = Annotated[str, AfterValidator(check_key), WithJsonSchema(KEY_SCHEMA)]
_NO_NUL = Field(json_schema_extra={"pattern": "^[^\\x00]*$"})
"""Said in the schema, and checked for the whole body at once."""

AgentName = Annotated[str, StringConstraints(min_length=1, max_length=100), _NO_NUL]
Model = Annotated[str, StringConstraints(min_length=1, max_length=200), _NO_NUL]
Title = Annotated[str, StringConstraints(max_length=500), _NO_NUL]
Directory = Annotated[
    str,
    AfterValidator(_check_absolute),
    StringConstraints(max_length=4096),
    Field(json_schema_extra={"pattern": "^/[^\\x00]*$"}),
]
LabelName = Annotated[str, StringConstraints(min_length=1, max_length=64), _NO_NUL]
LabelValue = Annotated[str, StringConstraints(max_length=256), _NO_NUL]
Labels = Annotated[dict[LabelName, LabelValue], Field(max_length=64)]
Settings = Annotated[dict[str, JsonValue], AfterValidator(_check_settings), WithJsonSchema(SETTINGS_SCHEMA)]
Text = Annotated[str, StringConstraints(min_length=1), _NO_NUL]
Cursor = Annotated[str, StringConstraints(min_length=1, max_length=512)]


class Form(BaseModel):
    """A body. Null is the same as absent, unless the form says otherwise."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)


class Birth(Form):
    """What a session is made from."""

    agent: AgentName
    cwd: Directory | None = None
    model: Model | None = None
    title: Title | None = None
    labels: Labels | None = None
    when_busy: WhenBusy | None = None
    settings: Settings | None = None

    def new(self, key: str | None) -> NewSession:
        """What the host makes of it."""
        return NewSession(
            agent=self.agent,
            key=key,
            cwd=self.cwd,
            model=self.model,
            title=self.title,
            labels=self.labels or {},
            when_busy=self.when_busy,
            settings=self.settings or {},
        )


class StartSession(Birth):
    """A new session. With `if_exists: "return"` a session that has the key already is the answer."""

    key: Key | None = None
    if_exists: Literal["error", "return"] = "error"


class PatchSession(Form):
    """A JSON merge patch (RFC 7396): null takes a value away, what is absent stays."""

    title: Title | None = None
    labels: Annotated[dict[LabelName, LabelValue | None], Field(max_length=64)] | None = None
    model: Model | None = None
    when_busy: WhenBusy | None = None
    settings: Settings | None = None
    cwd: Directory | None = None

    def changes(self) -> dict[str, Any]:
        """The fields that were given."""
        return self.model_dump(exclude_unset=True)


_BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_FILE_TEXT = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[^\\x00]*$"}
FILE_SCHEMA: dict[str, Any] = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"path": {"type": "string", "pattern": "^/[^\\x00]*$", "maxLength": 4096}},
            "required": ["path"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {
                "name": _FILE_TEXT,
                "media_type": _FILE_TEXT,
                "data": {"type": "string", "contentEncoding": "base64", "pattern": _BASE64},
            },
            "required": ["name", "data"],
            "additionalProperties": False,
        },
    ]
}


class File(Form):
    """A file beside a text: the path of one that the agent can read, or its content."""

    model_config = ConfigDict(json_schema_extra=lambda schema: (schema.clear(), schema.update(FILE_SCHEMA))[0])

    path: Directory | None = None
    name: Annotated[str, StringConstraints(min_length=1, max_length=255)] | None = None
    media_type: Annotated[str, StringConstraints(min_length=1, max_length=255)] | None = None
    data: Annotated[str, AfterValidator(_check_base64)] | None = None

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        given = self.model_fields_set
        if given != {"path"} and not {"name", "data"} <= given <= {"name", "media_type", "data"}:
            raise ValueError("must have either `path`, or `name` and `data` and perhaps `media_type`")
        if None in (getattr(self, field) for field in given):
            raise ValueError("must not have fields that are null")
        return self


YEAR_S = 366 * 24 * 3600
Seconds = Annotated[float, Field(ge=0.001, le=YEAR_S, allow_inf_nan=False)]


class DeadlineOf(Form):
    """Deadlines apart: for how long a message may wait for its turn, run in it, and be on its way in all."""

    waiting: Seconds | None = None
    running: Seconds | None = None
    total: Seconds | None = None


Sender = Annotated[str, StringConstraints(min_length=1, max_length=256), _NO_NUL]


class SendMessage(Form):
    """A message. `create` makes the session when there is none under the key.

    `sender` says for whom it is sent, where a client speaks for several; else it is the name of the client's token.
    `deadline_s` limits the whole way of the message, or its parts.
    """

    text: Text
    files: Annotated[list[File], Field(max_length=20)] | None = None
    when_busy: WhenBusy | None = None
    create: Birth | None = None
    sender: Sender | None = None
    deadline_s: Seconds | DeadlineOf | None = None

    def new(self, *, idempotency_key: str | None, digest: str | None, sender: str) -> NewMessage:
        """What the host makes of it."""
        return NewMessage(
            text=self.text,
            files=tuple(file.model_dump(exclude_unset=True) for file in self.files or ()),
            when_busy=self.when_busy,
            idempotency_key=idempotency_key,
            digest=digest,
            sender=self.sender or sender,
            deadline=self._deadline(),
        )

    def _deadline(self) -> Deadline | None:
        limits = self.deadline_s
        if limits is None:
            return None
        if not isinstance(limits, DeadlineOf):
            return Deadline(total_ms=_ms(limits))
        given = Deadline(waiting_ms=_ms(limits.waiting), running_ms=_ms(limits.running), total_ms=_ms(limits.total))
        return None if given == Deadline() else given


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


class EditMessage(Form):
    """What shall be different in a message that waits: at least one of both."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": [field], "properties": {field: {"type": "string"}}} for field in ("text", "when_busy")
            ]
        }
    )

    text: Text | None = None
    when_busy: WhenBusy | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.text is None and self.when_busy is None:
            raise ValueError("must have `text` or `when_busy`")
        return self


class ForkSession(Form):
    """Where a new session begins, and what it is called."""

    turn_id: Annotated[str, StringConstraints(min_length=1, max_length=100), _NO_NUL] | None = None
    key: Key | None = None
    title: Title | None = None


class ReorderQueue(Form):
    """The ids of all that waits, in their new order."""

    order: Annotated[list[Annotated[str, StringConstraints(max_length=100)]], Field(max_length=10_000)]


class AnswerPermission(Form):
    """A person's decision."""

    decision: Literal["allow", "deny"]
    option_id: Annotated[str, StringConstraints(max_length=256), _NO_NUL] | None = None
    note: Annotated[str, StringConstraints(max_length=4000), _NO_NUL] | None = None


class CreateToken(Form):
    """A new token: `full` may do everything, `read` may only look."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=100), _NO_NUL]
    scope: Literal["full", "read"] = "full"


class SignIn(Form):
    """The code of a sign-in link."""

    code: Annotated[str, StringConstraints(min_length=1, max_length=100), _NO_NUL]


Url = Annotated[
    str,
    StringConstraints(min_length=1, max_length=2048),
    Field(json_schema_extra={"pattern": "^https?://[!-~]+$", "format": "uri"}),
]
Secret = Annotated[str, Field(max_length=128, json_schema_extra={"pattern": "^whsec_[A-Za-z0-9+/]{32,86}={0,2}$"})]
_REF = Annotated[str, StringConstraints(min_length=1, max_length=KEY_MAX), _NO_NUL]


class AddWebhook(Form):
    """Who is to be told of what. Without `session` it is told of all sessions; without `secret` one is made."""

    url: Url
    events: Annotated[
        list[Literal["message.ended", "session.stopped", "session.deleted"]], Field(min_length=1, max_length=3)
    ] = ["message.ended"]
    session: _REF | None = None
    secret: Secret | None = None
    description: Annotated[str, StringConstraints(max_length=500), _NO_NUL] | None = None

    def new(self) -> NewWebhook:
        """What the host makes of it."""
        return NewWebhook(
            url=self.url,
            events=tuple(self.events),
            session=self.session,
            secret=self.secret,
            description=self.description,
        )


class SendOn(Form):
    """Where a message's receipt is to be sent on to. Without `secret` one is made."""

    url: Url
    secret: Secret | None = None


class AddSchedule(Form):
    """What is to be sent when. `create` makes the session when there is none under the key."""

    session: _REF
    text: Text
    cron: Annotated[str, StringConstraints(min_length=1, max_length=200), _NO_NUL]
    time_zone: Annotated[str, StringConstraints(min_length=1, max_length=100), _NO_NUL] = "UTC"
    missed: Literal["skip", "run_once"] = "skip"
    overlap: Literal["skip", "queue_one"] = "skip"
    when_busy: WhenBusy | None = None
    create: Birth | None = None

    def new(self) -> NewSchedule:
        """What the host makes of it."""
        if not self.session.startswith("ses_") and (problem := key_problem(self.session)):
            raise InvalidRequest(problem, field="session")
        return NewSchedule(
            session=self.session,
            text=self.text,
            cron=self.cron,
            time_zone=self.time_zone,
            missed=self.missed,
            overlap=self.overlap,
            when_busy=self.when_busy,
            create=self.create.new(self.session) if self.create else None,
        )


class Query(BaseModel):
    """A query string. Its values are text, so that numbers are read from it."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class NoQuery(Query):
    """A route without parameters."""


class ListQuery(Query):
    """A page of a list."""

    limit: Annotated[int, Field(ge=1, le=200, description="How many items the page may have.")] = 50
    cursor: Annotated[Cursor | None, Field(description="The `next_cursor` of the page before.")] = None


class SessionsQuery(ListQuery):
    """Which sessions are listed; all that are given must hold."""

    status: Annotated[list[SessionStatus], Field(description="Of one of these statuses.", max_length=16)] = []
    agent: Annotated[AgentName | None, Field(description="Of this agent.")] = None
    label: Annotated[
        list[Annotated[str, StringConstraints(pattern=r"^[^=]{1,64}=(.|\n|\r){0,256}$")]],
        Field(description="With this label, as `name=value`; may be repeated.", max_length=16),
    ] = []
    q: Annotated[
        Annotated[str, StringConstraints(min_length=1, max_length=500)] | None,
        Field(description="With this in the key or the title."),
    ] = None


class CancelQuery(Query):
    """What is cancelled with a turn."""

    queue: Annotated[bool, Field(description="Cancel all that waits in its session, too.")] = False


class TranscriptQuery(Query):
    """Which part of a conversation is shown."""

    generation: Annotated[int | None, Field(ge=1, le=2**53, description="Another than the current generation.")] = None
    limit: Annotated[int, Field(ge=1, le=200, description="How many lines the page may have.")] = 200
    cursor: Annotated[Cursor | None, Field(description="The `next_cursor` of the page before.")] = None


_TYPES = r"^[a-z_]+(\.([a-z_]+|\*))?(,[a-z_]+(\.([a-z_]+|\*))?)*$"


class EventsQuery(Query):
    """Which events are shown, and how."""

    after: Annotated[Cursor | None, Field(description="The cursor after which to begin.")] = None
    limit: Annotated[int, Field(ge=1, le=1000, description="How many events a page may have.")] = 500
    types: Annotated[
        Annotated[str, StringConstraints(pattern=_TYPES, max_length=1000)] | None,
        Field(description="Only events of these types, as `turn.text,permission.*`; `gap` and `snapshot` always come."),
    ] = None
    inline_max: Annotated[
        Annotated[int, Field(ge=0, le=2**31)] | None,
        Field(description="Of `data` with more bytes only what is short comes, with `ref` and `bytes`."),
    ] = None


class SessionEventsQuery(EventsQuery):
    """Which events of a session are shown."""

    before: Annotated[
        Cursor | None,
        Field(
            description="Only in pages: the newest events before this cursor, or with `end` the newest of all. "
            "`next_cursor` is then the `before` of the page that comes earlier."
        ),
    ] = None


class PermissionsQuery(ListQuery):
    """Which permission requests are listed."""

    state: Annotated[Literal["pending", "allowed", "denied", "expired"] | None, Field(description="In this state.")] = (
        None
    )
    session: Annotated[
        Annotated[str, StringConstraints(min_length=1, max_length=KEY_MAX)] | None,
        Field(description="Of this session, by id or key."),
    ] = None


_ID = Annotated[str, StringConstraints(min_length=1, max_length=100), _NO_NUL]


class WebhooksQuery(ListQuery):
    """Which webhooks are listed."""

    message: Annotated[_ID | None, Field(description="Those that send this message's receipt on.")] = None


class DeliveriesQuery(ListQuery):
    """Which deliveries are listed; all that is given must hold."""

    state: Annotated[Literal["pending", "delivered", "dead"] | None, Field(description="In this state.")] = None
    webhook: Annotated[_ID | None, Field(description="To this webhook.")] = None
    message: Annotated[_ID | None, Field(description="Of this message's end.")] = None


class SchedulesQuery(ListQuery):
    """Which schedules are listed."""

    session: Annotated[_REF | None, Field(description="Of this session, as its schedules name it.")] = None

"""What can be asked of a session: by clients, by its agent, by the clock, by the host that owns it."""

from typing import Any

from antiphon.core.events import TurnText, TurnThought, TurnToolEnded, TurnToolStarted, TurnUsage
from antiphon.core.session import Deadline, Problem, Usage, Value
from antiphon.core.words import CancelReason, OnCrash, WhenBusy


class Command(Value, frozen=True, kw_only=True):
    """A wish. `decide` makes events of it, or refuses and changes nothing."""


# From clients


class CreateSession(Command, frozen=True, kw_only=True):
    session_id: str
    agent: str
    key: str | None = None
    cwd: str | None = None
    model: str | None = None
    title: str | None = None
    labels: dict[str, str] = {}
    when_busy: WhenBusy | None = None
    settings: dict[str, Any] = {}


class SendMessage(Command, frozen=True, kw_only=True):
    """Accept an input. `prior` is what the session already holds under the idempotency key: message id and digest.

    `expected_generation` refuses with `session_conflict` when the session was cleared meanwhile, and keeps a reset
    policy from clearing it now; None takes any.
    """

    message_id: str
    text: str
    files: tuple[dict[str, Any], ...] = ()
    when_busy: WhenBusy | None = None
    idempotency_key: str | None = None
    digest: str | None = None
    prior: tuple[str, str | None] | None = None
    sender: str | None = None
    deadline: Deadline | None = None
    expected_generation: int | None = None


class EditMessage(Command, frozen=True, kw_only=True):
    message_id: str
    text: str | None = None
    when_busy: WhenBusy | None = None


class WithdrawMessage(Command, frozen=True, kw_only=True):
    message_id: str


class CancelMessage(Command, frozen=True, kw_only=True):
    """End a message that waits or runs. A turn that answers no other is cancelled; else it goes on for the others."""

    message_id: str


class CancelQueue(Command, frozen=True, kw_only=True):
    """End all that waits. What was handed to the running turn is not among it."""


class PauseQueue(Command, frozen=True, kw_only=True):
    pass


class ContinueQueue(Command, frozen=True, kw_only=True):
    pass


class ReorderQueue(Command, frozen=True, kw_only=True):
    """`order` must name every waiting message once."""

    order: tuple[str, ...]


class PatchSession(Command, frozen=True, kw_only=True):
    """`changes` is a JSON merge patch over title, labels, model, settings, when_busy, cwd. `if_match`: a revision."""

    changes: dict[str, Any]
    if_match: int | None = None


class StopSession(Command, frozen=True, kw_only=True):
    pass


class ResumeSession(Command, frozen=True, kw_only=True):
    pass


class ClearSession(Command, frozen=True, kw_only=True):
    reason: str = "asked"


class DeleteSession(Command, frozen=True, kw_only=True):
    pass


class Fork(Command, frozen=True, kw_only=True):
    """Make this copy of another session's journal, up to the end of that turn, a session of its own. What waited in it
    then is not part of it."""

    from_session_id: str
    from_turn_id: str
    mark: str


class CancelTurn(Command, frozen=True, kw_only=True):
    """`queue`: all that waits ends with it, also what was handed to this turn and not taken yet."""

    turn_id: str
    queue: bool = False
    reason: CancelReason = "cancel"


class AnswerPermission(Command, frozen=True, kw_only=True):
    """`decision` is `allow` or `deny`."""

    permission_id: str
    decision: str
    option_id: str | None = None
    note: str | None = None
    by: str | None = None


# From the owner


class StartTurn(Command, frozen=True, kw_only=True):
    """Run what waits at the front. The owner says so once it has a place for the agent."""

    turn_id: str


class SteerTurn(Command, frozen=True, kw_only=True):
    """Hand a waiting steer to the running turn. The owner says so when its agent can take one."""

    turn_id: str
    message_id: str


class HostDied(Command, frozen=True, kw_only=True):
    """Settle what a host that is gone left running."""

    on_crash: OnCrash = "interrupt"
    can_resume: bool = False


class ShutDown(Command, frozen=True, kw_only=True):
    """End what still runs as interrupted: the host goes down in good order and its drain is over.

    That cuts a turn short as a crash does, so `on_crash` says what becomes of its messages here, too.
    """

    on_crash: OnCrash = "interrupt"
    can_resume: bool = False


# From the agent, through its adapter. `run_id` names the agent process, `turn_id` the turn that it speaks of.


class AgentOpened(Command, frozen=True, kw_only=True):
    """An agent process is up.

    `generation` is the one it was opened for, which a `clear` may have ended meanwhile; None stands for that of the
    running turn, else of the session.
    """

    run_id: str
    generation: int | None = None
    pid: int | None = None
    resume_token: str | None = None


class AgentCanResume(Command, frozen=True, kw_only=True):
    run_id: str
    resume_token: str


class AgentUnavailable(Command, frozen=True, kw_only=True):
    """The agent could not be started for the turn."""

    turn_id: str
    detail: str


Said = TurnText | TurnThought | TurnToolStarted | TurnToolEnded | TurnUsage


class AgentSaid(Command, frozen=True, kw_only=True):
    """Text, a thought, a tool's start or end, usage: `said` is one of the `turn.*` events with the turn's id."""

    turn_id: str
    said: Said


class AgentSpoke(Command, frozen=True, kw_only=True):
    """Pieces of the answer's text, one right behind another: each as if an `AgentSaid` of its own said it."""

    turn_id: str
    texts: tuple[str, ...]


class AgentAsked(Command, frozen=True, kw_only=True):
    """The agent asks. With a `decision` (`allow` or `deny`) policy answers at once, for the reason in `note`."""

    permission_id: str
    turn_id: str
    question: str
    tool: str | None = None
    options: tuple[dict[str, Any], ...] = ()
    deadline_at: int | None = None
    decision: str | None = None
    note: str | None = None


class AgentSteered(Command, frozen=True, kw_only=True):
    """What became of a steer: `taken` into the turn, or left to wait at its place."""

    turn_id: str
    message_id: str
    taken: bool


class AgentBegan(Command, frozen=True, kw_only=True):
    """The agent began a turn by itself."""

    turn_id: str


class AgentEnded(Command, frozen=True, kw_only=True):
    """The agent's own end of its turn. `error` is set when it failed; `cancelled` when it says it was cut short."""

    turn_id: str
    error: Problem | None = None
    cancelled: bool = False
    usage: Usage | None = None
    mark: str | None = None


class AgentExited(Command, frozen=True, kw_only=True):
    """The agent process is gone, with everything below it. `turn_id`: the turn it was prompted with and did not end."""

    run_id: str
    turn_id: str | None = None
    exit_code: int | None = None
    reason: str
    detail: str = ""


class AgentWrote(Command, frozen=True, kw_only=True):
    """A remark of the agent that belongs to no turn."""

    text: str


# From the clock


class ExpirePermission(Command, frozen=True, kw_only=True):
    """The deadline of a question is over: policy decides, `deny` unless configured."""

    permission_id: str
    decision: str = "deny"


class TurnStalls(Command, frozen=True, kw_only=True):
    """The turn seems to get nowhere. `heard_at`: what was known of it then, so that a word said meanwhile counts."""

    turn_id: str
    heard_at: int
    detail: str


class TimePassed(Command, frozen=True, kw_only=True):
    """Look whether deadlines of messages have passed."""

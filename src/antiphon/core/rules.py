"""What decisions are made under: the host's limits and defaults, the time, what the session's agent can do."""

from antiphon.core.session import Value
from antiphon.core.words import Overflow, Senders, WhenBusy


class Rules(Value, frozen=True, kw_only=True):
    """The host's limits and defaults, as `decide` needs them. The `collect_` ones a session may set for itself."""

    when_busy: WhenBusy = "queue"
    queue_max: int = 100
    collect_quiet_s: float = 0.5
    """For how long no further `collect` message may have come before what was collected runs."""
    collect_max: int = 20
    """How many `collect` messages one turn answers in full."""
    collect_overflow: Overflow = "refuse"
    """What becomes of one more: it is refused, or the oldest are given to the agent by their beginnings only."""
    collect_senders: Senders = "apart"
    """Whether one turn answers the messages of one sender only, or of all together."""
    attempts_max: int = 3
    """How many turns a message may get when crashes cut them short."""


class Given(Value, frozen=True, kw_only=True):
    """What a decision is made under: the time (ms since the epoch), the rules, and what the session's agent can do."""

    now: int
    rules: Rules = Rules()
    can_roll_back: bool = True
    """Whether the agent can forget a cancelled turn. Where it can't, a rollback only interrupts: a transcript without
    a turn that the agent remembers would not be true."""
    can_steer: bool = True
    """Whether the agent can take a message into a running turn. Where it can't, a steer waits for a turn of its own."""

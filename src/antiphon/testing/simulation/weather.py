"""How much trouble there is: what a seed makes slow, unreliable or hostile."""

import random

import msgspec

from antiphon.core.decide import Rules
from antiphon.host.settings import HostSettings


class Weather(msgspec.Struct, kw_only=True):
    """Rates are probabilities of something happening each time that it could.

    Attributes:
        slow_s: How long a slow call of the store takes at the most.
        rival: A metadata writer comes first, at a commit.
        away, doubtful: A commit fails; its outcome is unknown.
        read_away: A read fails.
        crash: The host dies at a commit, before or after it.
        kills, restarts, outages: How often the host is killed, or stopped in good order, and the store is away.
        damages: How many sessions come to be unreadable.
        leaves: A caller leaves in the middle of its call.
        lost: An answer does not reach its caller.
        open_fails, open_hangs, open_slow_s: Of an agent's start.
        dies: An agent dies in a turn, or idle.
        raises: An adapter raises where its contract forbids it.
        deaf: An agent does not stop when it is asked to, at once or ever.
        doubles: An agent says its end twice, or goes on talking after it.
        begins: An agent begins a turn by itself.
        asks: An agent asks a person.
        clock_jumps: How often the wall clock is moved.
        stalls: A host stands still in a commit, which arrives when its lease is over.
        freezes: How often a host stands still for a while, also for longer than its lease.
        cuts: How often a host's connection to the store is lost for a while.
        mutes: How often what a host tells of itself does not arrive for a while: it works on, and is taken for dead.
        drains: How often a person wants a host to own nothing for a while.
        rolls: How often all hosts are restarted one after the other.
        failovers: How often all hosts lose their connections at once.
        late_notices: A notice of what others wrote comes late.
        lost_notices: It comes only when the store is looked through for what was missed.
    """

    slow_s: float = 0.0
    rival: float = 0.0
    away: float = 0.0
    doubtful: float = 0.0
    read_away: float = 0.0
    crash: float = 0.0
    kills: int = 0
    restarts: int = 0
    outages: int = 0
    damages: int = 0
    leaves: float = 0.0
    lost: float = 0.0
    open_fails: float = 0.0
    open_hangs: float = 0.0
    open_slow_s: float = 0.0
    dies: float = 0.0
    raises: float = 0.0
    deaf: float = 0.0
    doubles: float = 0.0
    begins: float = 0.0
    asks: float = 0.0
    clock_jumps: int = 0
    stalls: float = 0.0
    freezes: int = 0
    cuts: int = 0
    mutes: int = 0
    drains: int = 0
    rolls: int = 0
    failovers: int = 0
    late_notices: float = 0.0
    lost_notices: float = 0.0

    def clear_up(self) -> None:
        """From now on nothing goes wrong any more."""
        for name, value in zip(self.__struct_fields__, msgspec.structs.astuple(Weather()), strict=True):
            setattr(self, name, value)


def drawn(dice: random.Random) -> Weather:
    """The weather of a seed: some kinds of trouble, seldom all of them."""

    def sometimes(rate: float, chance: float = 0.4) -> float:
        return rate * dice.random() if dice.random() < chance else 0.0

    return Weather(
        slow_s=dice.choice((0.0, 0.01, 0.2)),
        rival=sometimes(0.5),
        away=sometimes(0.2, 0.25),
        doubtful=sometimes(0.2, 0.25),
        read_away=sometimes(0.1, 0.2),
        crash=sometimes(0.05, 0.3),
        kills=dice.choice((0, 0, 0, 1, 2)),
        restarts=dice.choice((0, 0, 0, 1)),
        damages=dice.choice((0, 0, 0, 0, 1)),
        outages=dice.choice((0, 0, 0, 1)),
        leaves=sometimes(0.4),
        lost=sometimes(0.2),
        open_fails=sometimes(0.4, 0.3),
        open_hangs=sometimes(0.2, 0.2),
        open_slow_s=dice.choice((0.0, 0.05, 1.0)),
        dies=sometimes(0.3, 0.3),
        raises=sometimes(0.2, 0.2),
        deaf=sometimes(0.8),
        doubles=sometimes(0.6, 0.3),
        begins=sometimes(0.4, 0.25),
        asks=sometimes(0.5, 0.3),
        clock_jumps=dice.choice((0, 0, 0, 2)),
    )


def with_others(weather: Weather, dice: random.Random) -> None:
    """Add what can come between several hosts over one store."""
    weather.kills += dice.choice((0, 0, 1))
    weather.stalls = dice.choice((0.0, 0.0, 0.05)) * dice.random()
    weather.freezes = dice.choice((0, 1, 2, 4))
    weather.cuts = dice.choice((0, 0, 1, 2))
    weather.mutes = dice.choice((0, 0, 1, 2))
    weather.drains = dice.choice((0, 0, 1, 2))
    weather.rolls = dice.choice((0, 0, 0, 1))
    weather.failovers = dice.choice((0, 0, 0, 1))
    weather.late_notices = dice.choice((0.0, 0.3, 1.0)) * dice.random()
    weather.lost_notices = dice.choice((0.0, 0.0, 0.2, 0.6)) * dice.random()


def settings(dice: random.Random) -> HostSettings:
    """Limits and deadlines short enough that a simulation meets them."""
    return HostSettings(
        rules=Rules(
            queue_max=dice.choice((3, 8, 100)),
            collect_max=dice.choice((2, 20)),
            collect_quiet_s=dice.choice((0.0, 0.2, 0.5)),
            collect_overflow=dice.choice(("refuse", "refuse", "summarise")),
            collect_senders=dice.choice(("apart", "together")),
        ),
        max_agents=dice.choice((1, 1, 2, 3)),
        agent_idle_s=dice.choice((0.6, 3.0, 900.0)),
        open_timeout_s=2.0,
        cancel_grace_s=0.5,
        close_patience_s=dice.choice((0.1, 0.5)),
        drain_s=dice.choice((0.0, 0.5)),
        stall_after_s=5.0,
        permission_deadline_s=dice.choice((None, 1.5)),
        on_crash=dice.choice(("interrupt", "retry_if_untouched", "resume")),
        conflict_attempts=dice.choice((3, 4, 10)),
        awake_idle_s=dice.choice((0.5, 2.0, 60.0)),
    )

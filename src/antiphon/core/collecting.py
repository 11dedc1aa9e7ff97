"""`collect`: which waiting messages one turn answers together, and when it may start."""

from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

from antiphon.core.rules import Rules
from antiphon.core.session import Message, Session
from antiphon.core.words import Overflow, Senders

LONGEST = 5
"""So many times the quiet that is waited for, a burst that does not end is waited for at the most."""
QUIET_MAX_S = 3600


class Collecting(NamedTuple):
    """How a session collects: its own settings, else the host's."""

    quiet_ms: int
    max: int
    overflow: Overflow
    senders: Senders


def collecting(session: Session, rules: Rules) -> Collecting:
    """How this session collects. Settings that can't be used count for nothing."""
    own: Mapping[str, Any] = {} if check_collecting(session.settings) else session.settings

    def chosen(name: str) -> Any:
        value = own.get(name)
        return getattr(rules, name) if value is None else value

    return Collecting(
        quiet_ms=int(chosen("collect_quiet_s") * 1000),
        max=chosen("collect_max"),
        overflow=chosen("collect_overflow"),
        senders=chosen("collect_senders"),
    )


def check_collecting(settings: Mapping[str, Any]) -> str | None:
    """What is wrong with the settings that `collect` goes by, for a person; None when they can be used."""
    for name, words in (("collect_overflow", get_args(Overflow)), ("collect_senders", get_args(Senders))):
        if settings.get(name) not in (None, *words):
            return f"`settings.{name}` must be one of {', '.join(words)}."
    quiet_s, most = settings.get("collect_quiet_s"), settings.get("collect_max")
    if quiet_s is not None and not (_is_number(quiet_s) and 0 <= quiet_s <= QUIET_MAX_S):
        return f"`settings.collect_quiet_s` must be a number of seconds from 0 to {QUIET_MAX_S}."
    if most is not None and not (_is_number(most) and isinstance(most, int) and most > 0):
        return "`settings.collect_max` must be a whole number above 0."
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Batch(NamedTuple):
    """What the next turn answers. Of those that are `shortened` the agent gets the beginning only."""

    messages: tuple[Message, ...]
    shortened: tuple[Message, ...] = ()


def next_batch(session: Session, rules: Rules) -> Batch:
    """The message at the front, and with a `collect` one those that are collected with it. Something must wait."""
    front = session.inbox[0]
    if front.when_busy != "collect":
        return Batch((front,))
    how = collecting(session, rules)
    together = gathered(session, front.sender, how)
    if how.overflow == "refuse":
        return Batch(together[: how.max])
    return Batch(together, together[: -how.max])


def gathered(session: Session, sender: str | None, how: Collecting) -> tuple[Message, ...]:
    """The `collect` messages that wait and can share a turn with one of this sender, in order."""
    return tuple(
        message
        for message in session.inbox
        if message.when_busy == "collect" and (how.senders == "together" or message.sender == sender)
    )


def may_start_at(session: Session, rules: Rules, now: int) -> int | None:
    """When (ms) what waits at the front may start; None where nothing may.

    A burst is given time to end: until nobody has added to it for a while, or it is full, or it has lasted for
    `LONGEST` times that while. Time is that of the acceptances, so that a crash changes nothing; where the clock was
    set back since, nobody waits.
    """
    if not session.may_run:
        return None
    if session.inbox[0].when_busy != "collect":
        return now
    how = collecting(session, rules)
    batch = next_batch(session, rules).messages
    accepted = [message.accepted_at for message in batch]
    if len(batch) >= how.max or now < max(accepted):
        return now
    return max(now, min(max(accepted) + how.quiet_ms, min(accepted) + LONGEST * how.quiet_ms))

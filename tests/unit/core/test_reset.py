"""The reset policy: when the next message begins a new generation."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from antiphon.core import commands as c
from antiphon.core.reset import check_reset, reset_due
from antiphon.core.session import Session
from models.scene import Scene

MINUTE = 60_000


def ms(text: str, zone: str = "UTC", *, fold: int = 0) -> int:
    """The moment at which clocks of the zone show that; `fold` 1 for the second time they do."""
    moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return int(moment.astimezone(UTC).timestamp() * 1000)


def due(policy: Any, last: int | None, now: int) -> bool:
    settings = {} if policy is None else {"reset": policy}
    session = Session(id="s", agent="echo", created_at=0, active_at=0, message_at=last, settings=settings)
    return reset_due(session, now)


# Idle


def test_an_idle_session_is_reset_before_its_next_message() -> None:
    scene = Scene(settings={"reset": {"idle_minutes": 30}})
    scene.send("msg_1")
    scene.start("turn_1")
    scene.complete("turn_1")
    scene.now += 30 * MINUTE - 1
    scene.send("msg_2")
    assert scene.session.generation == 1
    scene.start("turn_2")
    scene.complete("turn_2")
    scene.now += 30 * MINUTE
    scene.send("msg_3")
    assert scene.last[:2] == ["session.cleared", "message.accepted"]
    assert (scene.session.generation, scene.message("msg_3").generation) == (2, 2)


def test_only_messages_count_as_activity() -> None:
    scene = Scene(settings={"reset": {"idle_minutes": 30}})
    scene.run("msg_1", "turn_1")
    scene.now += 29 * MINUTE
    scene.say("turn_1", "still at it")
    scene.complete("turn_1")
    scene.take(c.PatchSession(changes={"title": "T"}))
    scene.now += MINUTE
    scene.send("msg_2")
    assert scene.session.generation == 2


@pytest.mark.parametrize("state", ["running", "waiting"])
def test_a_session_is_never_reset_over_a_turn_or_a_queue(state: str) -> None:
    scene = Scene(settings={"reset": {"idle_minutes": 30}})
    scene.send("msg_1")
    if state == "running":
        scene.start("turn_1")
    scene.now += 300 * MINUTE
    scene.send("msg_2")
    assert scene.session.generation == 1


def test_a_refused_or_repeated_message_resets_nothing() -> None:
    scene = Scene(settings={"reset": {"idle_minutes": 30}})
    scene.send("msg_1", idempotency_key="k", digest="d")
    scene.take(c.WithdrawMessage(message_id="msg_1"))
    scene.now += 300 * MINUTE
    again = c.SendMessage(message_id="msg_2", text="x", idempotency_key="k", digest="d", prior=("msg_1", "d"))
    assert scene.repeated(again) == "msg_1"
    scene.take(c.StopSession())
    assert scene.refusal(c.SendMessage(message_id="msg_3", text="x")).code == "session_stopped"
    assert scene.session.generation == 1


def test_a_cleared_session_is_not_reset_a_second_time_for_the_same_silence() -> None:
    scene = Scene(settings={"reset": {"idle_minutes": 30}})
    scene.run("msg_1", "turn_1")
    scene.complete("turn_1")
    scene.take(c.ClearSession())
    scene.now += 300 * MINUTE
    scene.send("msg_2")
    assert scene.session.generation == 2


def test_messages_that_wait_over_a_clear_are_the_new_generations_activity() -> None:
    scene = Scene(settings={"reset": {"idle_minutes": 30}})
    scene.send("msg_1")
    scene.take(c.ClearSession())
    scene.start("turn_1")
    scene.complete("turn_1")
    scene.now += 300 * MINUTE
    scene.send("msg_2")
    assert scene.session.generation == 3


def test_a_message_that_names_its_generation_goes_on_in_it() -> None:
    scene = Scene(settings={"reset": {"idle_minutes": 30}})
    scene.run("msg_1", "turn_1")
    scene.complete("turn_1")
    scene.now += 300 * MINUTE
    scene.send("msg_2", expected_generation=1)
    assert scene.message("msg_2").generation == 1


# Daily


@pytest.mark.parametrize(
    ("last", "now", "expected"),
    [
        ("2026-03-10T03:59:59", "2026-03-10T04:00:00", True),
        ("2026-03-10T04:00:00", "2026-03-11T03:59:59", False),
        ("2026-03-10T04:00:00", "2026-03-11T04:00:00", True),
        ("2026-03-10T23:59:00", "2026-03-11T00:01:00", False),
        ("2026-03-01T12:00:00", "2026-03-11T03:00:00", True),
        ("2026-03-11T05:00:00", "2026-03-11T04:30:00", False),
    ],
)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Los_Angeles", "Asia/Kolkata", "Pacific/Kiritimati"])
def test_a_daily_reset_lies_between_the_last_message_and_the_next(
    last: str, now: str, expected: bool, zone: str
) -> None:
    policy = {"daily_at": "04:00", "time_zone": zone}
    assert due(policy, ms(last, zone), ms(now, zone)) is expected


def test_a_daily_time_without_a_zone_is_of_utc() -> None:
    assert due({"daily_at": "04:00"}, ms("2026-07-01T03:59:00"), ms("2026-07-01T04:00:00"))
    assert not due({"daily_at": "04:00"}, ms("2026-07-01T05:59:00", "Europe/Berlin"), ms("2026-07-01T03:59:59"))


def test_a_time_that_the_clocks_skip_counts_as_that_much_later() -> None:
    policy, zone = {"daily_at": "02:30", "time_zone": "Europe/Berlin"}, "Europe/Berlin"
    last = ms("2026-03-29T01:00:00", zone)
    assert not due(policy, last, ms("2026-03-29T03:29:59", zone))
    assert due(policy, last, ms("2026-03-29T03:30:00", zone))
    assert not due(policy, ms("2026-03-29T03:30:00", zone), ms("2026-03-30T02:29:59", zone))


def test_of_a_time_that_the_clocks_show_twice_the_first_counts() -> None:
    policy, zone = {"daily_at": "02:30", "time_zone": "Europe/Berlin"}, "Europe/Berlin"
    last = ms("2026-10-25T01:00:00", zone)
    first, second = ms("2026-10-25T02:30:00", zone), ms("2026-10-25T02:30:00", zone, fold=1)
    assert second - first == 60 * MINUTE
    assert not due(policy, last, first - 1)
    assert due(policy, last, first)
    assert not due(policy, first, second)


def test_a_day_that_a_zone_skipped_is_survived() -> None:
    policy, zone = {"daily_at": "04:00", "time_zone": "Pacific/Apia"}, "Pacific/Apia"
    now = ms("2011-12-31T01:00:00", zone)
    assert not due(policy, ms("2011-12-29T04:00:00", zone), now)
    assert due(policy, ms("2011-12-29T03:59:00", zone), now)


@pytest.mark.parametrize("zone", ["America/Havana", "Africa/Cairo", "America/Santiago", "Asia/Beirut"])
def test_every_minute_of_a_year_has_a_last_reset_before_it(zone: str) -> None:
    """These zones change their clocks at midnight."""
    policy = {"daily_at": "00:30", "time_zone": zone}
    year = range(ms("2024-01-01T00:00:00"), ms("2025-01-01T00:00:00"), 37 * MINUTE)
    resets = sum(due(policy, before, before + 37 * MINUTE) for before in year)
    assert resets in (365, 366, 367)


# Which policies can be used


@pytest.mark.parametrize(
    "policy",
    [
        "never",
        {"idle_minutes": 1},
        {"idle_minutes": 0.5},
        {"daily_at": "04:00"},
        {"daily_at": "23:59", "time_zone": "UTC"},
    ],
)
def test_a_policy_that_can_be_used_has_no_flaw(policy: Any) -> None:
    assert check_reset(policy) is None


@pytest.mark.parametrize(
    "policy",
    [
        "always",
        None,
        5,
        [],
        {},
        {"idle_minutes": 0},
        {"idle_minutes": "5"},
        {"idle_minutes": True},
        {"idle_minutes": float("nan")},
        {"idle_minutes": 5, "daily_at": "04:00"},
        {"time_zone": "UTC"},
        {"daily_at": 4},
        {"daily_at": "4 o'clock"},
        {"daily_at": "24:01"},
        {"daily_at": "04:00+02:00"},
        {"daily_at": "04:00", "time_zone": "Nowhere/Town"},
        {"daily_at": "04:00", "time_zone": "../../etc/passwd"},
        {"daily_at": "04:00", "time_zone": 5},
        {"daily_at": "04:00", "time_zone": ""},
    ],
)
def test_a_policy_that_cannot_be_used_says_why_and_resets_nothing(policy: Any) -> None:
    flaw = check_reset(policy)
    assert flaw is not None
    assert "`reset" in flaw
    assert not due(policy, 0, ms("2026-01-01T00:00:00"))


def test_a_session_without_a_policy_or_without_a_message_is_not_reset() -> None:
    assert not due(None, 0, ms("2026-01-01T00:00:00"))
    assert not due("never", 0, ms("2026-01-01T00:00:00"))
    assert not due({"idle_minutes": 1}, None, ms("2026-01-01T00:00:00"))

"""What is done when a schedule's time has come."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from antiphon.ports.timetable import Schedule
from antiphon.schedules.plan import CLAIM_MS, GRACE_MS, Begin, Skip, again, finished, key, look, paused, resumed

HOUR = 3_600_000
DUE = int(datetime(2026, 1, 5, 7, tzinfo=UTC).timestamp() * 1000)


def schedule(**fields: object) -> Schedule:
    made = Schedule(id="sch_1", session="k", text="t", cron="0 * * * *", time_zone="UTC", created_at=1, wakes_at=DUE)
    return replace(made, **fields)


def test_a_run_on_time_is_begun_and_the_claim_on_it_runs_out() -> None:
    step = look(schedule(), None, now=DUE + 3)

    assert isinstance(step, Begin)
    assert (step.schedule.begun, step.schedule.wakes_at, step.schedule.version) == (DUE, DUE + 3 + CLAIM_MS, 2)
    assert key(step.schedule) == f"sch_1:{DUE}"


def test_what_was_sent_is_the_last_run_and_the_next_one_is_the_next_hour() -> None:
    begun = look(schedule(), None, now=DUE).schedule

    done = finished(begun, now=DUE + 9, outcome="sent", message_id="msg_1")

    assert (done.begun, done.wakes_at, done.sent, done.skipped, done.version) == (None, DUE + HOUR, 1, 0, 3)
    assert done.last is not None
    assert (done.last.due_at, done.last.at, done.last.outcome, done.last_message_id) == (DUE, DUE + 9, "sent", "msg_1")


def test_runs_that_nobody_was_there_for_are_skipped_and_counted() -> None:
    now = DUE + 3 * HOUR + GRACE_MS + 1
    step = look(schedule(), None, now=now)

    assert isinstance(step, Skip)
    assert step.schedule.last is not None
    assert (step.schedule.last.outcome, step.schedule.last.due_at) == ("missed", DUE + 3 * HOUR)
    assert step.schedule.last.detail == "No host was there at the time of 4 runs."
    assert (step.schedule.skipped, step.schedule.wakes_at, step.schedule.begun) == (4, DUE + 4 * HOUR, None)


def test_or_the_last_of_them_is_run_once() -> None:
    step = look(schedule(missed="run_once"), None, now=DUE + 3 * HOUR + GRACE_MS + 1)

    assert isinstance(step, Begin)
    assert (step.schedule.begun, step.schedule.skipped) == (DUE + 3 * HOUR, 3)


def test_a_host_that_comes_just_in_time_for_the_last_of_several_runs_it() -> None:
    step = look(schedule(), None, now=DUE + 2 * HOUR + GRACE_MS)

    assert isinstance(step, Begin)
    assert (step.schedule.begun, step.schedule.skipped) == (DUE + 2 * HOUR, 2)


@pytest.mark.parametrize(
    ("overlap", "last", "sent"),
    [
        ("skip", None, True),
        ("skip", "answered", True),
        ("skip", "failed", True),
        ("skip", "running", False),
        ("skip", "queued", False),
        ("queue_one", "running", True),
        ("queue_one", "queued", False),
    ],
)
def test_a_run_that_finds_the_last_message_not_ended_never_piles_up(overlap: str, last: str, sent: bool) -> None:
    step = look(schedule(overlap=overlap, last_message_id="msg_0"), last, now=DUE)  # pyright: ignore[reportArgumentType]

    assert isinstance(step, Begin) is sent
    if not sent:
        assert step.schedule.last is not None
        assert step.schedule.last.outcome == "overlapped"
        assert "msg_0" in (step.schedule.last.detail or "")
        assert (step.schedule.skipped, step.schedule.wakes_at) == (1, DUE + HOUR)


def test_a_run_whose_outcome_nobody_wrote_down_is_sent_again_under_its_own_key() -> None:
    begun = look(schedule(), None, now=DUE).schedule

    step = again(begun, now=DUE + CLAIM_MS)

    assert isinstance(step, Begin)
    assert key(step.schedule) == key(begun)
    assert (step.schedule.wakes_at, step.schedule.version) == (DUE + 2 * CLAIM_MS, begun.version + 1)


def test_unless_it_is_late_by_now_and_what_is_missed_is_skipped() -> None:
    begun = look(schedule(), None, now=DUE).schedule
    late = DUE + GRACE_MS + 1

    step = again(begun, now=late)

    assert isinstance(step, Skip)
    assert step.schedule.last is not None
    assert (step.schedule.last.outcome, step.schedule.begun, step.schedule.wakes_at) == ("missed", None, DUE + HOUR)
    assert isinstance(again(replace(begun, missed="run_once"), now=late), Begin)


def test_a_paused_schedule_wakes_nobody_and_a_resumed_one_goes_on_with_the_next_run() -> None:
    resting = paused(schedule(), now=DUE - 5)
    assert (resting.wakes_at, resting.paused_at) == (None, DUE - 5)
    assert paused(resting, now=DUE) is resting

    going = resumed(resting, now=DUE + 5 * HOUR + 1)
    assert (going.wakes_at, going.paused_at, going.skipped) == (DUE + 6 * HOUR, None, 0)
    assert resumed(going, now=DUE) is going


def test_a_run_that_was_begun_before_the_pause_is_finished_and_then_it_rests() -> None:
    begun = look(schedule(), None, now=DUE).schedule
    resting = paused(begun, now=DUE + 1)
    assert resting.wakes_at == begun.wakes_at

    done = finished(resting, now=DUE + 2, outcome="sent", message_id="msg_1")

    assert (done.wakes_at, done.begun, done.sent) == (None, None, 1)


def test_a_clock_that_is_put_back_runs_nothing_twice() -> None:
    done = finished(look(schedule(), None, now=DUE).schedule, now=DUE - 10 * HOUR, outcome="sent", message_id="msg_1")

    assert done.wakes_at == DUE + HOUR

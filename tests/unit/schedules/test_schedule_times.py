"""When schedules run, also when clocks are changed."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from antiphon.schedules.times import cron_problem, last_of, next_after, next_runs, zone_problem

BERLIN = "Europe/Berlin"


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def told(runs: list[int]) -> list[str]:
    return [datetime.fromtimestamp(run / 1000, UTC).strftime("%m-%d %H:%M") for run in runs]


def test_runs_are_in_the_time_of_the_zone() -> None:
    after = ms("2026-01-01T00:00")
    assert told(next_runs("0 7 * * 1-5", BERLIN, after, 3)) == ["01-01 06:00", "01-02 06:00", "01-05 06:00"]
    assert told(next_runs("0 7 * * *", "America/New_York", after, 1)) == ["01-01 12:00"]
    assert told(next_runs("30 5 * * *", "Asia/Kolkata", after, 1)) == ["01-02 00:00"]


def test_the_next_run_is_after_a_time_and_never_at_it() -> None:
    run = next_after("0 7 * * *", "UTC", ms("2026-01-01T00:00"))
    assert run is not None
    assert next_after("0 7 * * *", "UTC", run) == ms("2026-01-02T07:00")
    assert next_after("0 7 * * *", "UTC", run - 1) == run
    assert next_after("* * * * *", "UTC", ms("2026-01-01T00:00") + 59_999) == ms("2026-01-01T00:01")


def test_a_time_that_the_clocks_skip_runs_at_once_after_the_change_and_once() -> None:
    """On 29 March 2026 in Berlin 02:00 is 03:00, which is 01:00 UTC."""
    after = ms("2026-03-28T12:00")
    assert told(next_runs("30 2 * * *", BERLIN, after, 2)) == ["03-29 01:00", "03-30 00:30"]
    assert told(next_runs("15,45 2 * * *", BERLIN, after, 3)) == ["03-29 01:00", "03-30 00:15", "03-30 00:45"]


def test_a_time_that_comes_twice_runs_the_first_time_only() -> None:
    """On 25 October 2026 in Berlin 03:00 is 02:00 again; the hour from 02:00 is that from 00:00 and from 01:00 UTC."""
    after = ms("2026-10-24T12:00")
    assert told(next_runs("30 2 * * *", BERLIN, after, 2)) == ["10-25 00:30", "10-26 01:30"]
    between = ms("2026-10-25T01:10")
    assert told(next_runs("30 2 * * *", BERLIN, between, 1)) == ["10-26 01:30"]


def test_what_runs_by_the_hour_keeps_to_real_time_through_both_changes() -> None:
    spring = next_runs("0 * * * *", BERLIN, ms("2026-03-28T22:30"), 5)
    autumn = next_runs("*/30 * * * *", BERLIN, ms("2026-10-24T23:45"), 6)
    assert {later - run for run, later in pairwise(spring)} == {3_600_000}
    assert {later - run for run, later in pairwise(autumn)} == {1_800_000}


@pytest.mark.parametrize("zone", [BERLIN, "America/New_York", "Australia/Lord_Howe", "UTC"])
@pytest.mark.parametrize("cron", ["30 2 * * *", "0 * * * *", "*/20 1-3 * * *", "15 2 * * 0"])
@pytest.mark.parametrize("start", ["2026-03-06T00:00", "2026-03-27T00:00", "2026-10-02T00:00", "2026-10-23T00:00"])
def test_runs_come_one_after_the_other_whoever_asks_in_between(cron: str, zone: str, start: str) -> None:
    at, apart = ms(start), list[int]()
    together = next_runs(cron, zone, at, 60)
    for _ in together:
        run = next_after(cron, zone, at)
        assert run is not None
        apart.append(run)
        at = run
    assert apart == together
    assert together == sorted(set(together))


def test_a_leap_day_and_the_end_of_a_month_are_found() -> None:
    assert told(next_runs("0 0 29 2 *", "UTC", ms("2026-01-01T00:00"), 1)) == ["02-29 00:00"]
    assert told(next_runs("0 0 L * *", "UTC", ms("2026-01-01T00:00"), 2)) == ["01-31 00:00", "02-28 00:00"]


def test_words_stand_for_expressions() -> None:
    assert next_after("@daily", "UTC", ms("2026-01-01T12:00")) == ms("2026-01-02T00:00")
    assert next_after(" @Hourly ", "UTC", ms("2026-01-01T12:10")) == ms("2026-01-01T13:00")


@pytest.mark.parametrize(
    "cron",
    ["", "* * * *", "* * * * * *", "61 * * * *", "x * * * *", "0 0 30 2 *", "@never", "*/0 * * * *", "5-1 * * * *"],
)
def test_what_is_no_expression_is_told_when_it_is_added(cron: str) -> None:
    assert cron_problem(cron) is not None


@pytest.mark.parametrize("cron", ["0 7 * * 1-5", "*/5 * * * *", "0 0 L * *", "0 9 * * MON#1", "@weekly", "0 0 29 2 *"])
def test_what_can_come_true_is_taken(cron: str) -> None:
    assert cron_problem(cron) is None


@pytest.mark.parametrize("zone", ["", "Mars/Base", "../../etc/passwd", "/etc/localtime", "Europe", "x" * 5000, "a\0b"])
def test_what_is_no_zone_is_told_when_it_is_added(zone: str) -> None:
    assert zone_problem(zone) is not None


def test_every_kind_of_name_of_a_zone_is_taken() -> None:
    assert [zone_problem(zone) for zone in ("UTC", BERLIN, "Etc/GMT+5")] == [None, None, None]


def test_the_last_of_many_missed_runs_is_found_without_going_through_all_of_them() -> None:
    first = ms("2020-01-01T00:00")
    assert last_of("* * * * *", "UTC", first, first) == (first, 0)
    assert last_of("* * * * *", "UTC", first, first + 59_999) == (first, 0)
    assert last_of("* * * * *", "UTC", first, first + 180_000) == (first + 180_000, 3)
    last, before = last_of("* * * * *", "UTC", first, ms("2026-01-01T00:00") + 5)
    assert (last, before) == (ms("2026-01-01T00:00"), 1000)
    first = ms("2020-02-29T00:00")
    assert last_of("0 0 29 2 *", "UTC", first, ms("2027-06-01T00:00")) == (ms("2024-02-29T00:00"), 1)
    assert last_of("0 0 29 2 *", "UTC", first, ms("2023-06-01T00:00")) == (first, 0)

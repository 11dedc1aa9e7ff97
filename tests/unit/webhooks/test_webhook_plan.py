"""What follows from a try of a delivery."""

from email.utils import formatdate

import pytest

from antiphon.ports.outbox import Delivery
from antiphon.webhooks.plan import Answer, NoAnswer, Pace, after_try, pause_after, retry_after_s

NOW = 1_800_000_000_000
PACE = Pace()
DAY_MS = 24 * 3600 * 1000


def delivery(**fields: object) -> Delivery:
    made: dict[str, object] = {
        "id": "evt_1",
        "webhook_id": "hook_1",
        "target": "https://x:443",
        "type": "message.ended",
        "at": NOW,
        "session_id": "ses_1",
        "subject": {},
        "since": NOW,
        "next_at": NOW,
    }
    return Delivery(**(made | fields))  # pyright: ignore[reportArgumentType]


def after(outcome: Answer | NoAnswer, *, now: int = NOW, chance: float = 0.0, **fields: object) -> Delivery:
    return after_try(delivery(**fields), outcome, now=now, pace=PACE, chance=chance)


@pytest.mark.parametrize("status", [200, 202, 204, 299])
def test_any_status_of_success_settles_it(status: int) -> None:
    done = after(Answer(status), attempts=3, error="before")

    assert (done.state, done.attempts, done.status, done.error, done.settled_at) == ("delivered", 4, status, None, NOW)


@pytest.mark.parametrize("status", [301, 302, 307, 400, 404, 429, 500, 503])
def test_everything_else_is_tried_again_also_a_redirect_and_a_refusal(status: int) -> None:
    failed = after(Answer(status))

    assert (failed.state, failed.attempts, failed.status) == ("pending", 1, status)
    assert failed.next_at == NOW + 5000
    assert str(status) in (failed.error or "")


def test_a_try_without_an_answer_keeps_the_status_of_the_one_before_and_says_why_it_failed() -> None:
    failed = after(NoAnswer("The connection failed."), status=500)

    assert (failed.state, failed.status, failed.error) == ("pending", 500, "The connection failed.")


def test_pauses_grow_threefold_up_to_an_hour_and_chance_lengthens_them() -> None:
    assert [pause_after(attempts, PACE) for attempts in range(1, 9)] == [5, 15, 45, 135, 405, 1215, 3600, 3600]
    assert pause_after(10_000, PACE) == 3600
    assert after(Answer(500), chance=1.0).next_at == NOW + 6000


def test_tries_go_on_for_24_hours_and_the_last_one_is_then() -> None:
    now, tries, standing = NOW, 0, delivery()
    while standing.state == "pending":
        now, tries = standing.next_at, tries + 1
        standing = after_try(standing, NoAnswer("down"), now=now, pace=PACE, chance=0.5)

    assert standing.state == "dead"
    assert now == NOW + DAY_MS
    assert 25 < tries < 40
    assert (standing.attempts, standing.settled_at, standing.error) == (tries, now, "down")


def test_a_receiver_that_is_gone_is_asked_no_more() -> None:
    assert after(Answer(410)).state == "dead"


def test_a_receiver_is_left_alone_for_as_long_as_it_asks() -> None:
    assert after(Answer(503, "120")).next_at == NOW + 120_000
    assert after(Answer(503, "1")).next_at == NOW + 5000, "never sooner than it would have been"
    assert after(Answer(429, "9" * 9)).next_at == NOW + DAY_MS
    date = formatdate(NOW / 1000 + 90, usegmt=True)
    assert after(Answer(503, date)).next_at == NOW + 90_000


@pytest.mark.parametrize("header", [None, "", "soon", "-5", "1.5", "٣", formatdate(0, usegmt=True), "9" * 5000 + "x"])
def test_what_asks_for_nothing_changes_nothing(header: str | None) -> None:
    assert retry_after_s(header, NOW) == 0.0

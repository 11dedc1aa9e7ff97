"""Asking, sending and waiting, on a virtual clock."""

import pytest

from antiphon.client import exchanges
from antiphon.client.errors import (
    ConnectionLost,
    Draining,
    HostNotReached,
    MessageNotFound,
    SessionBusy,
    SessionNotFound,
    UnexpectedAnswer,
)
from antiphon.client.plans import Call, Pace
from clientlab.scripted import Script, Taking, answer, problem, receipt

DRAFT = exchanges.Draft("key", "hello", "k1")


def test_a_host_that_is_not_there_is_told_at_once() -> None:
    script = Script(HostNotReached("gone"))

    with pytest.raises(HostNotReached):
        script.run(script.plans.ask(exchanges.session("key")))

    assert script.time == 0


def test_a_lost_answer_is_asked_for_again_where_that_is_safe() -> None:
    session = {"id": "ses_1", "key": "key"}
    script = Script(ConnectionLost("broke"), HostNotReached("restarting"), answer(session))

    found = script.run(script.plans.ask(exchanges.session("key")))

    assert found.document == session
    assert script.requests == [script.requests[0]] * 3
    assert 0 < script.time <= 1


@pytest.mark.parametrize(
    "exchange",
    [
        exchanges.session_act("key", "clear"),
        exchanges.session_delete("key"),
        exchanges.session_start({"agent": "echo"}),
        exchanges.turn_cancel("turn_1"),
        exchanges.permission_answer("perm_1", {"decision": "allow"}),
        exchanges.token_create("t", "full"),
        exchanges.session_patch("key", {"title": "t"}, 7),
    ],
)
def test_what_counts_each_time_is_never_asked_twice(exchange: exchanges.Exchange[object]) -> None:
    script = Script(ConnectionLost("broke"))

    with pytest.raises(ConnectionLost):
        script.run(script.plans.ask(exchange))

    assert len(script.requests) == 1


def test_asking_again_ends_when_patience_does_and_says_what_was_wrong() -> None:
    lost = ConnectionLost("broke")
    script = Script(*[lost] * 9, pace=Pace(retry_s=5))

    with pytest.raises(ConnectionLost):
        script.run(script.plans.ask(exchanges.session("key")))

    assert 3 < script.time <= 5
    assert script.pauses == sorted(script.pauses)
    assert max(script.pauses) <= 1


def test_a_host_that_is_silent_is_waited_for_once_and_not_asked_again() -> None:
    script = Script(Taking(60, ConnectionLost("silent")), pace=Pace(answer_s=60))

    with pytest.raises(ConnectionLost):
        script.run(script.plans.ask(exchanges.session("key")))

    assert len(script.requests) == 1


def test_a_refusal_is_told_and_not_tried_again() -> None:
    script = Script(problem("session_busy", 409))

    with pytest.raises(SessionBusy):
        script.run(script.plans.send(DRAFT, None))

    assert script.time == 0


def test_a_send_knows_its_id_before_it_waits() -> None:
    script = Script(answer(receipt("queued"), 202), answer(receipt("answered", reply="hi")))

    end = script.run(script.plans.send(DRAFT, None))

    assert end.reply == "hi"
    post, get = script.requests
    assert (post.method, post.path, post.wait_s) == ("POST", "/v1/sessions/key/messages", 0)
    assert post.headers["idempotency-key"] == "k1"
    assert (get.method, get.path, get.headers["prefer"]) == ("GET", "/v1/messages/msg_1", "wait=30")
    assert [(each.id, each.state) for each in script.emitted] == [("msg_1", "queued")]


def test_every_try_of_a_send_carries_the_same_key_and_body() -> None:
    script = Script(ConnectionLost("a"), HostNotReached("b"), ConnectionLost("c"), answer(receipt("answered"), 202))

    script.run(script.plans.send(DRAFT, None))

    assert len(script.requests) == 4
    assert len({(each.path, each.body, each.headers["idempotency-key"]) for each in script.requests}) == 1


def test_a_send_that_does_not_wait_returns_what_was_accepted() -> None:
    script = Script(answer(receipt("queued"), 202))

    assert script.run(script.plans.send(DRAFT, 0)).state == "queued"
    assert script.emitted == []


def test_a_long_wait_is_several_slices() -> None:
    running = answer(receipt("running"), 202)
    script = Script(running, *[Taking(30, running)] * 20, Taking(3, answer(receipt("answered"))))

    assert script.run(script.plans.message_wait("msg_1", None)).ended
    assert script.time == 603
    assert script.pauses == []


def test_a_wait_ends_on_time_and_returns_how_it_stands() -> None:
    running = answer(receipt("running"), 202)
    script = Script(running, Taking(30, running), Taking(12, running), Taking(0.5, ConnectionLost("cut off")))

    end = script.run(script.plans.message_wait("msg_1", 42.5))

    assert end.state == "running"
    assert script.time == pytest.approx(42.5)
    waits = [(step.request.wait_s, step.timeout_s) for step in script.steps if isinstance(step, Call)][1:]
    assert waits[0] == (30, 45)
    assert waits[1] == (12, pytest.approx(12.5 + 15))
    assert waits[2] == (1, pytest.approx(0.5))


def test_a_wait_outlasts_a_restart_of_the_host() -> None:
    running, gone = answer(receipt("running"), 202), HostNotReached("restarting")
    script = Script(
        running,
        Taking(7, ConnectionLost("killed")),
        *[gone] * 10,
        problem("draining", 503),
        problem("store_unavailable", 503),
        Taking(2, answer(receipt("interrupted"))),
    )

    assert script.run(script.plans.message_wait("msg_1", None)).state == "interrupted"
    assert len(script.pauses) == 13


def test_patience_begins_anew_when_the_host_was_heard() -> None:
    running, gone = Taking(30, answer(receipt("running"), 202)), HostNotReached("restarting")
    script = Script(running, *[gone] * 20, running, *[gone] * 20, answer(receipt("answered")))

    assert script.run(script.plans.message_wait("msg_1", None)).ended


@pytest.mark.parametrize("error", [HostNotReached("gone"), Draining(503, {"code": "draining"})])
def test_a_host_that_stays_away_is_told_within_bounded_time(error: HostNotReached | Draining) -> None:
    script = Script(answer(receipt("running"), 202), *[error] * 34)

    with pytest.raises(type(error)):
        script.run(script.plans.message_wait("msg_1", None))

    assert 28 < script.time <= 30


def test_a_wait_with_a_deadline_ends_on_time_though_the_host_is_away() -> None:
    script = Script(answer(receipt("running"), 202), *[HostNotReached("gone")] * 7)

    assert script.run(script.plans.message_wait("msg_1", 3)).state == "running"
    assert script.time == pytest.approx(3)


def test_a_host_that_answers_waits_at_once_is_not_flooded() -> None:
    running = answer(receipt("running"), 202)
    script = Script(running, *[running] * 10, answer(receipt("answered")))

    script.run(script.plans.message_wait("msg_1", None))

    assert script.pauses == [0.2] * 10


def test_waiting_for_what_is_not_there_is_told_at_once() -> None:
    script = Script(problem("message_not_found", 404))

    with pytest.raises(MessageNotFound):
        script.run(script.plans.message_wait("msg_1", None))


def test_the_whole_list_is_read_page_after_page() -> None:
    pages = [{"items": [{"id": f"ses_{n}"}], "next_cursor": f"c{n}" if n < 3 else None} for n in range(4)]
    script = Script(*map(answer, pages))

    script.run(script.plans.pages(exchanges.sessions, None))

    assert [session.id for session in script.emitted] == ["ses_0", "ses_1", "ses_2", "ses_3"]
    assert [request.path for request in script.requests][:2] == [
        "/v1/sessions?limit=200",
        "/v1/sessions?limit=200&cursor=c0",
    ]


def test_a_list_with_a_limit_asks_for_no_more_than_that() -> None:
    first = {"items": [{"id": f"ses_{n}"} for n in range(200)], "next_cursor": "c"}
    second = {"items": [{"id": f"ses_{n}"} for n in range(200, 205)], "next_cursor": "d"}
    script = Script(answer(first), answer(second))

    script.run(script.plans.pages(exchanges.sessions, 205))

    assert len(script.emitted) == 205
    assert [request.path for request in script.requests][1] == "/v1/sessions?limit=5&cursor=c"


@pytest.mark.parametrize("body", [[], {"items": 5}, {"items": ["x"]}, "x", None])
def test_a_page_of_another_form_is_unexpected(body: object) -> None:
    script = Script(answer(body))

    with pytest.raises(UnexpectedAnswer):
        script.run(script.plans.pages(exchanges.sessions, None))


def test_a_journal_is_read_until_nothing_follows() -> None:
    first = {"items": [{"cursor": "e:1"}, {"cursor": "e:2"}], "next_cursor": "e:2"}
    script = Script(answer(first), answer({"items": [], "next_cursor": "e:2"}))

    script.run(script.plans.journal("key", None, None))

    assert [event.cursor for event in script.emitted] == ["e:1", "e:2"]
    assert script.requests[1].path == "/v1/sessions/key/events?after=e%3A2&limit=1000"


def test_a_missing_session_ends_a_list_with_its_error() -> None:
    script = Script(problem("session_not_found", 404))

    with pytest.raises(SessionNotFound):
        script.run(script.plans.journal("key", None, None))

"""Following streams that break, on a virtual clock: nothing twice, nothing lost in silence."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.client import exchanges
from antiphon.client.errors import (
    ConnectionLost,
    Forbidden,
    HostNotReached,
    QueueFull,
    SessionNotFound,
    UnexpectedAnswer,
)
from antiphon.client.following import follow, send_and_follow
from antiphon.client.plans import Read
from clientlab.scripted import STREAM, Script, Taking, answer, event, problem, receipt, told

DRAFT = exchanges.Draft("key", "hello", "k1")
LOST = ConnectionLost("broke")

ACCEPTED = event(5, "message.accepted", message_id="msg_1")
STARTED = event(6, "turn.started", turn_id="turn_1", data={"message_ids": ["msg_1"]})
OTHERS = event(7, "message.accepted", message_id="msg_2")
ENDED = event(12, "message.ended", message_id="msg_1", turn_id="turn_1")
END = told("receipt", receipt("answered", reply="abc"))


def piece(sequence: int, text: str, turn_id: str = "turn_1") -> bytes:
    """A piece of an answer."""
    return event(sequence, "turn.text", turn_id=turn_id, data={"text": text})


def texts(script: Script) -> str:
    """The pieces that were handed out, joined."""
    return "".join(each.data["text"] for each in script.emitted if each.type == "turn.text")


def test_a_stream_gives_the_events_and_then_the_receipt() -> None:
    script = Script(STREAM, ACCEPTED + STARTED, piece(8, "a"), piece(9, "b") + piece(10, "c") + ENDED, END)

    end = script.run(send_and_follow(script.plans, DRAFT, None))

    assert end.reply == texts(script) == "abc"
    assert [request.headers["accept"] for request in script.requests] == ["text/event-stream"]


def test_a_stream_that_breaks_goes_on_behind_the_last_cursor_and_tells_no_piece_twice() -> None:
    script = Script(
        STREAM,
        ACCEPTED + STARTED + OTHERS + piece(8, "a"),
        piece(9, "b")[:20],
        LOST,
        STREAM,
        piece(8, "a") + piece(9, "b") + piece(10, "x", "turn_2") + piece(11, "c") + ENDED,
        answer(receipt("answered", reply="abc")),
    )

    end = script.run(send_and_follow(script.plans, DRAFT, None))

    assert end.reply == texts(script) == "abc"
    assert [request.path for request in script.requests] == [
        "/v1/sessions/key/messages",
        "/v1/sessions/ses_1/events?after=e%3A8",
        "/v1/messages/msg_1",
    ]
    assert "msg_2" not in [each.message_id for each in script.emitted]


def test_a_stream_that_breaks_before_its_first_event_is_asked_for_again_under_its_key() -> None:
    script = Script(LOST, STREAM, b": still here\n\n", b"", STREAM, ACCEPTED + STARTED + piece(8, "abc") + END)

    assert script.run(send_and_follow(script.plans, DRAFT, None)).state == "answered"
    assert {request.headers["idempotency-key"] for request in script.requests} == {"k1"}


def test_a_stream_that_breaks_behind_the_end_is_not_followed_further() -> None:
    script = Script(
        STREAM, ACCEPTED + STARTED + piece(8, "abc") + ENDED, LOST, answer(receipt("answered", reply="abc"))
    )

    assert script.run(send_and_follow(script.plans, DRAFT, None)).reply == "abc"
    assert script.requests[-1].path == "/v1/messages/msg_1"


def test_a_gap_ends_the_stream_and_the_receipt_has_the_whole_answer() -> None:
    gap, snapshot = told("gap", {"type": "gap", "session_id": "ses_1"}), told("snapshot", {"type": "snapshot"})
    script = Script(
        STREAM,
        ACCEPTED + STARTED + piece(8, "a"),
        LOST,
        STREAM,
        gap + snapshot,
        answer(receipt("answered", reply="abc")),
    )

    end = script.run(send_and_follow(script.plans, DRAFT, None))

    assert (texts(script), end.reply) == ("a", "abc")


def test_a_host_that_does_not_stream_is_waited_for() -> None:
    script = Script(answer(receipt("queued"), 202), answer(receipt("answered", reply="abc")))

    assert script.run(send_and_follow(script.plans, DRAFT, None)).reply == "abc"


def test_a_stream_ends_when_time_is_up_with_the_receipt_as_it_stands() -> None:
    script = Script(STREAM, ACCEPTED + STARTED + piece(8, "a"), Taking(5, LOST), answer(receipt("running"), 202))

    end = script.run(send_and_follow(script.plans, DRAFT, 5))

    assert (texts(script), end.state, script.time) == ("a", "running", 5)


def test_a_refused_stream_is_told() -> None:
    script = Script(problem("queue_full", 429))

    with pytest.raises(QueueFull):
        script.run(send_and_follow(script.plans, DRAFT, None))


def test_a_host_that_is_not_there_is_told_at_once() -> None:
    script = Script(HostNotReached("gone"))

    with pytest.raises(HostNotReached):
        script.run(send_and_follow(script.plans, DRAFT, None))

    assert script.time == 0


def test_a_host_that_is_stopping_in_the_middle_is_waited_for() -> None:
    draining = told("problem", {"code": "draining", "detail": "Later.", "status": 503})
    script = Script(
        STREAM,
        ACCEPTED + STARTED + piece(8, "a") + draining,
        *[HostNotReached("restarting")] * 5,
        STREAM,
        event(9, "message.ended", message_id="msg_1", turn_id="turn_1"),
        answer(receipt("interrupted", reply="a")),
    )

    assert script.run(send_and_follow(script.plans, DRAFT, None)).state == "interrupted"


def test_a_steered_message_follows_the_turn_that_took_it() -> None:
    steered = event(8, "turn.steered", message_id="msg_1", turn_id="turn_9")
    script = Script(
        STREAM,
        ACCEPTED,
        LOST,
        STREAM,
        piece(7, "no", "turn_9") + steered + piece(9, "yes", "turn_9") + ENDED,
        answer(receipt("answered", reply="noyes")),
    )

    script.run(send_and_follow(script.plans, DRAFT, None))

    assert texts(script) == "yes"


@given(st.lists(st.integers(1, 14), max_size=4), st.integers(0, 3))
def test_wherever_a_stream_breaks_its_pieces_join_to_the_reply(breaks: list[int], replayed: int) -> None:
    journal = [ACCEPTED, STARTED, OTHERS, *[piece(8 + n, f"{n},") for n in range(6)]]
    journal += [event(14, "message.ended", message_id="msg_1", turn_id="turn_1")]
    reply = "0,1,2,3,4,5,"
    end = receipt("answered", reply=reply)
    outcomes: list[object] = []
    seen = 0
    for place in sorted({min(place, len(journal) - 1) for place in breaks}):
        outcomes += [STREAM, b"".join(journal[max(0, seen - replayed) : place]) or b":\n\n", LOST]
        seen = max(seen, place)
    rest = b"".join(journal[max(0, seen - replayed) :])
    outcomes += [STREAM, rest, answer(end)] if seen else [STREAM, rest]
    script = Script(*outcomes)  # pyright: ignore[reportArgumentType]
    if not seen:
        script = Script(STREAM, rest + told("receipt", end))

    found = script.run(send_and_follow(script.plans, DRAFT, None))

    assert found.reply == texts(script) == reply


def test_following_a_session_begins_anew_behind_what_was_seen_and_ends_with_the_session() -> None:
    script = Script(
        STREAM,
        event(1, "session.created") + event(2, "session.status"),
        LOST,
        HostNotReached("restarting"),
        STREAM,
        event(2, "session.status") + event(3, "session.status") + event(4, "session.deleted"),
    )

    script.run(follow(script.plans, "key", None))

    assert [each.cursor for each in script.emitted] == ["e:1", "e:2", "e:3", "e:4"]
    assert [request.path for request in script.requests] == [
        "/v1/sessions/key/events",
        "/v1/sessions/key/events?after=e%3A2",
        "/v1/sessions/key/events?after=e%3A2",
    ]


def test_a_quiet_stream_may_break_every_hour_for_as_long_as_it_likes() -> None:
    quiet = [STREAM, Taking(30, b": still here\n\n"), Taking(40, LOST)]
    script = Script(*quiet * 20, STREAM, event(1, "session.deleted"))

    script.run(follow(script.plans, "key", "e:0"))

    assert set(script.pauses) == {0.05}


def test_a_stream_that_is_always_cut_at_once_is_given_up_within_bounded_time() -> None:
    script = Script(*[STREAM, b"retry: 2000\n\n", LOST] * 40)

    with pytest.raises(ConnectionLost):
        script.run(follow(script.plans, "key", "e:0"))

    assert 28 < script.time <= 30


def test_a_host_that_hangs_for_long_at_every_try_is_given_up_too() -> None:
    script = Script(STREAM, LOST, *[Taking(10, HostNotReached("no answer"))] * 4)

    with pytest.raises(HostNotReached):
        script.run(follow(script.plans, "key", "e:0"))

    assert script.time < 45


def test_a_gap_and_its_snapshot_are_told_and_what_follows_counts_anew() -> None:
    gap, snapshot = told("gap", {"type": "gap"}), told("snapshot", {"type": "snapshot"})
    script = Script(STREAM, gap + snapshot + event(2, "session.status", "new") + event(3, "session.deleted", "new"))

    script.run(follow(script.plans, "key", "old:900"))

    assert [each.type for each in script.emitted] == ["gap", "snapshot", "session.status", "session.deleted"]


def test_the_feed_of_all_sessions_goes_on_after_a_session_was_deleted() -> None:
    feed = [f"id: f:{n}\nevent: session.deleted\ndata: {json.dumps({'cursor': f'e:{9 - n}'})}\n\n" for n in (1, 2)]
    script = Script(STREAM, "".join(feed).encode(), *[LOST] * 40)

    with pytest.raises(ConnectionLost):
        script.run(follow(script.plans, None, None))

    assert [each.cursor for each in script.emitted] == ["e:8", "e:7"]
    assert script.requests[-1].path == "/v1/events?after=f%3A2"


def test_following_what_is_not_there_is_told() -> None:
    script = Script(problem("session_not_found", 404))

    with pytest.raises(SessionNotFound):
        script.run(follow(script.plans, "key", None))


@pytest.mark.parametrize("frame", [b"data: {\n\n", b"data: []\n\n", b"event: receipt\ndata: 5\n\n"])
def test_an_event_that_is_none_is_unexpected(frame: bytes) -> None:
    script = Script(STREAM, frame)

    with pytest.raises(UnexpectedAnswer):
        script.run(send_and_follow(script.plans, DRAFT, None))


def test_a_silent_stream_is_not_waited_for_without_end() -> None:
    script = Script(STREAM, event(1, "session.created"), Taking(60, LOST), STREAM, event(2, "session.deleted"))

    script.run(follow(script.plans, "key", None))

    reads = [step.timeout_s for step in script.steps if isinstance(step, Read)]
    assert set(reads) == {60}


def test_a_session_s_end_in_the_feed_comes_at_the_place_that_was_reached_and_once() -> None:
    def deleted(session_id: str) -> bytes:
        return event(7, "session.deleted", session_id=session_id)

    moved = event(7, "message.accepted")
    frames = moved + moved + deleted("ses_1") + deleted("ses_1") + deleted("ses_2")
    script = Script(STREAM, frames, LOST, problem("forbidden", 403))

    with pytest.raises(Forbidden):
        script.run(follow(script.plans, None, None))

    assert [event.type for event in script.emitted] == ["message.accepted", "session.deleted", "session.deleted"]


def test_a_wish_for_some_types_is_told_again_at_every_connection() -> None:
    script = Script(STREAM, piece(8, "a"), LOST, problem("forbidden", 403))

    with pytest.raises(Forbidden):
        script.run(follow(script.plans, "k", None, exchanges.Wish(("turn.text", "permission.*"), 100)))

    first, second = (request.path for request in script.requests)
    assert first == "/v1/sessions/k/events?types=turn.text%2Cpermission.%2A&inline_max=100"
    assert "after=" in second and "types=turn.text" in second

"""Notices: merged by session, told at once or together, and read back as they were."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.ports.store import Notice
from antiphon.store.notices import Waiting, notice_of
from antiphon.store.postgres import notices
from antiphon.store.postgres.notices import NAMED_MAX, Outbox, heard
from antiphon.testing.drafts import Draft

ended = st.none() | st.dictionaries(st.sampled_from(["msg_1", "msg_2", "msg_3"]), st.none() | st.just("turn_1"))
told = st.builds(
    lambda session_id, sequence, ended: Notice(session_id=session_id, sequence=sequence, ended=ended),
    st.sampled_from(["ses_1", "ses_2"]),
    st.integers(1, 9),
    ended,
)


@given(st.lists(told, max_size=8))
def test_notices_of_one_session_are_told_as_one_that_says_all(some: list[Notice]) -> None:
    waiting = Waiting()
    for notice in some:
        waiting.put(notice)
    assert waiting.ready.is_set() == bool(some)
    taken = {notice.session_id: notice for notice in waiting.take()}
    assert set(taken) == {notice.session_id for notice in some}
    for session_id, notice in taken.items():
        own = [one for one in some if one.session_id == session_id]
        assert notice.sequence == max(one.sequence for one in own)
        known = [one.ended for one in own if one.ended is not None]
        assert (notice.ended is None) == (len(known) < len(own)), "what isn't known of one isn't known of all"
        if notice.ended is not None:
            assert set(notice.ended) == set().union(*known)
    assert waiting.take() == []
    assert not waiting.ready.is_set()


def test_a_commit_tells_which_messages_end_with_it_but_of_a_deletion_all_may() -> None:
    draft = Draft("ses_1")
    assert notice_of(draft.create()).ended == {}
    over = draft.message("msg_1", state="answered", ended_at=1, turn_id="turn_1")
    assert notice_of(draft.log(messages=(over, draft.message("msg_2")))).ended == {"msg_1": "turn_1"}
    assert notice_of(draft.delete()) == Notice(session_id="ses_1", sequence=3, ended=None)


class Sent:
    """An outbox that sends here."""

    def __init__(self) -> None:
        self.payloads: list[str] = []
        self.came = asyncio.Event()
        self.outbox = Outbox("one", self._send)
        self._delivering = asyncio.ensure_future(self.outbox.deliver())

    async def _send(self, payload: str) -> None:
        self.payloads.append(payload)
        self.came.set()

    async def told(self) -> list[Notice]:
        """What was told in the next payload."""
        async with asyncio.timeout(10):
            await self.came.wait()
        self.came.clear()
        payload = self.payloads.pop(0)
        assert heard(payload, "one") == []
        return heard(payload, "two")

    async def close(self) -> None:
        self._delivering.cancel()
        await asyncio.gather(self._delivering, return_exceptions=True)


def notice(session_id: str, **fields: Any) -> Notice:
    return Notice(session_id=session_id, sequence=1, **fields)


async def test_what_can_wait_is_told_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "LINGER_S", 0.001)
    sent = Sent()
    for number in range(2):
        sent.outbox.put(notice(f"ses_{number}"), soon=False)
        assert await sent.told() == [notice(f"ses_{number}")]
    await sent.close()


async def test_what_is_urgent_is_told_at_once_and_takes_along_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "LINGER_S", 3600.0)
    sent = Sent()
    for number in range(2):
        sent.outbox.put(notice("ses_waits", ended={}), soon=False)
        await asyncio.sleep(0)
        assert not sent.payloads
        sent.outbox.put(notice(f"ses_{number}", ended={"msg_1": "turn_1"}), soon=True)
        assert await sent.told() == [
            notice("ses_waits", ended={}),
            notice(f"ses_{number}", ended={"msg_1": "turn_1"}),
        ]
    await sent.close()


async def test_a_payload_is_never_too_large_for_the_server() -> None:
    sent = Sent()
    long = {f"msg_{number:032x}": f"turn_{number:032x}" for number in range(NAMED_MAX)}
    for number in range(200):
        sent.outbox.put(
            notice(f"ses_{number:032x}", ended=long if number % 3 else {**long, "msg_more": None}), soon=True
        )
    found: list[Notice] = []
    while len(found) < 200:
        assert all(len(payload) < 8000 for payload in sent.payloads)
        found += await sent.told()
        sent.came.set()
    assert [one.ended for one in found] == [long if number % 3 else None for number in range(200)]
    await sent.close()

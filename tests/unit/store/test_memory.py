"""The store in memory is done before it awaits: a simulation decides alone what happens when."""

import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from antiphon.ports.store import SequenceMoved, SessionQuery
from antiphon.store.memory import MemoryStore
from antiphon.testing.drafts import Draft


def at_once(call: Coroutine[Any, Any, Any]) -> Any:
    """The result of a call that never awaits anything."""
    try:
        call.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waited")


def test_every_call_is_done_without_an_event_loop_or_a_thread() -> None:
    before = threading.active_count()
    store, draft = MemoryStore(epoch="e1"), Draft("ses_1", key="k")
    assert store.epoch == "e1"
    at_once(store.commit(draft.create()))
    at_once(store.commit(draft.accept("msg_1", "hi", idempotency_key="i")))
    assert at_once(store.claim("ses_1", "h")) == 1
    at_once(store.release("ses_1", 1))
    assert at_once(store.load("ses_1")) == draft.session
    assert at_once(store.message("msg_1")).text == "hi"
    assert at_once(store.sessions(SessionQuery(), cursor=None, limit=5)).items == (draft.session,)
    assert [one.position for one in at_once(store.feed(after="0", limit=9))] == ["1", "2"]
    with pytest.raises(SequenceMoved):
        at_once(store.commit(Draft("ses_1").create()))
    at_once(store.commit(draft.delete()))
    assert at_once(store.purge(100)) == 5
    at_once(store.close())
    assert threading.active_count() == before


def test_two_stores_that_are_told_the_same_tell_the_same() -> None:
    told = []
    for _ in range(2):
        store = MemoryStore()
        for number in range(20):
            draft = Draft(f"ses_{number % 7}_{number}", active_at=number % 3)
            at_once(store.commit(draft.create()))
            at_once(store.claim(draft.session.id, "h"))
        page = at_once(store.sessions(SessionQuery(), cursor=None, limit=9))
        told.append((page, at_once(store.feed(after="3", limit=9)), at_once(store.claim("ses_0_0", "h"))))
    assert told[0] == told[1]

"""The torture's checker finds what it looks for: each kind of broken promise, staged, is told."""

import msgspec
import pytest

from antiphon.core import commands as c
from antiphon.core.decide import Given
from antiphon.core.events import Entry
from antiphon.core.session import Session
from antiphon.core.step import Step
from antiphon.ports.store import Commit
from antiphon.store.memory import MemoryStore
from antiphon.testing.journal import Journal
from antiphon.testing.torture.checks import Kept, Told, check, read_store


def kept(*, reply: str = "echo: tokAz", text: str = "[[sleep 0.05]] tokAz", state: str = "answered") -> Kept:
    """One session with one message, `msg_1` with `tokAz`, that one turn answered."""
    journal = Journal()
    journal.ends, journal.replies = {"msg_1": (state, "turn_1")}, {"turn_1": reply}
    found = Kept()
    found.journals["ses_1"] = journal
    found.texts["msg_1"] = text
    found.by_token["tokAz"] = ["msg_1"]
    found.turn_messages["turn_1"] = ["msg_1"]
    found.labels["s"] = {"a": "1"}
    return found


ACCEPTED: Told = {"kind": "accepted", "token": "tokAz", "id": "msg_1", "session": "s"}
ENDED: Told = {**ACCEPTED, "kind": "ended", "state": "answered", "reply": "echo: tokAz", "turn_id": "turn_1"}


def test_an_honest_host_has_no_findings() -> None:
    told = [ACCEPTED, ENDED, {"kind": "patched", "session": "s", "label": "a"}]
    told += [{"kind": "not_accepted", "token": "tokBz", "code": "session_busy"}]
    assert list(check(told, kept())) == []


@pytest.mark.parametrize(
    ("told", "broken"),
    [
        ({**ACCEPTED, "id": "msg_2", "token": "tokBz"}, "is lost (P2)"),
        ({**ACCEPTED, "id": "msg_2"}, "under one key (P8)"),
        (
            {"kind": "not_accepted", "token": "tokAz", "code": "session_busy"},
            "was refused (session_busy) and is there (P5)",
        ),
        ({**ENDED, "state": "cancelled"}, "was told to be cancelled"),
        ({**ENDED, "turn_id": "turn_2"}, "in turn_2, kept is answered in turn_1"),
        ({**ENDED, "reply": "echo: tokBz"}, "the reply that was told is not the one"),
        ({"kind": "patched", "session": "s", "label": "b"}, "label b of s is lost (P10)"),
        ({"kind": "stuck", "token": "tokAz", "id": "msg_1"}, "somebody waits for ever"),
        ({"kind": "hanging", "thread": "p0n0"}, "somebody waits for ever"),
    ],
)
def test_what_a_client_was_told_is_held_against_what_is_kept(told: Told, broken: str) -> None:
    assert any(broken in finding for finding in check([ACCEPTED, told], kept()))


@pytest.mark.parametrize(
    ("flawed", "broken"),
    [
        (kept(reply="echo: tokBz"), "was answered without its token (P4)"),
        (kept(reply="echo: tokAz tokBz"), "holds the tokens ['tokBz'] of others (P4)"),
    ],
)
def test_an_answer_holds_its_own_token_and_no_other(flawed: Kept, broken: str) -> None:
    assert any(broken in finding for finding in check([], flawed))


def test_a_message_that_is_there_twice_or_has_no_end_is_found() -> None:
    twice = kept()
    twice.by_token["tokAz"] = ["msg_1", "msg_2"]
    assert any("is there 2 times (P8)" in finding for finding in check([], twice))
    endless = kept()
    endless.journals["ses_1"].ends = {}
    assert any("msg_1 has no end (P3)" in finding for finding in check([], endless))


async def test_a_snapshot_that_is_not_the_fold_of_its_journal_is_found() -> None:
    step = Step(None, Given(now=1), session_id="ses_1")
    step.take(c.CreateSession(session_id="ses_1", agent="echo"))
    step.seal()
    assert isinstance(step.session, Session)
    lying = msgspec.structs.replace(step.session, title="something else")
    store, findings = MemoryStore(), list[str]()
    entries: tuple[Entry, ...] = tuple(step.entries)
    await store.commit(Commit(session=lying, expected=0, entries=entries))
    await read_store(store, findings)
    assert findings == ["ses_1: its snapshot is not the fold of its journal"]

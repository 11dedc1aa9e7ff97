"""The doctor of a SQLite store: what is damaged is found, what the journal can tell is mended, a copy is kept."""

from pathlib import Path

import apsw
import pytest

from antiphon.core import commands as c
from antiphon.core import events as e
from antiphon.core.decide import Given
from antiphon.core.errors import StoreUnavailable
from antiphon.core.session import Message, Permission, Session, Turn
from antiphon.core.step import Step
from antiphon.host.commits import new_texts
from antiphon.ports.store import Commit, StoreDamaged
from antiphon.store.sqlite import SqliteStore
from antiphon.store.sqlite.database import NAME
from antiphon.store.sqlite.doctor import examine, repair
from antiphon.system import SystemClock


async def lived(data_dir: Path) -> dict[str, Session]:
    """A store with two sessions that each had an edited message, an answer and a question; the sessions by id."""
    store, sessions = await SqliteStore.open(data_dir, clock=SystemClock()), dict[str, Session]()
    for name in ("a", "b"):
        session_id = f"ses_{name}"
        step = Step(None, Given(now=1), session_id=session_id)
        for command in (
            c.CreateSession(session_id=session_id, agent="echo", key=f"key:{name}"),
            c.SendMessage(message_id=f"msg_{name}1", text="first"),
            c.StartTurn(turn_id=f"turn_{name}1"),
            c.SendMessage(message_id=f"msg_{name}2", text="second"),
            c.EditMessage(message_id=f"msg_{name}2", text="edited"),
            c.AgentSaid(turn_id=f"turn_{name}1", said=e.TurnText(turn_id=f"turn_{name}1", text="answer")),
            c.AgentAsked(turn_id=f"turn_{name}1", permission_id=f"perm_{name}1", question="may I"),
            c.AgentEnded(turn_id=f"turn_{name}1"),
        ):
            step.take(command)
        step.seal()
        assert step.session
        records = tuple(step.records.values())
        await store.commit(
            Commit(
                session=step.session,
                expected=0,
                entries=tuple(step.entries),
                messages=tuple(one for one in records if isinstance(one, Message)),
                turns=tuple(one for one in records if isinstance(one, Turn)),
                permissions=tuple(one for one in records if isinstance(one, Permission)),
                texts=new_texts(step.events),
            )
        )
        sessions[session_id] = step.session
    await store.close()
    return sessions


def damage(data_dir: Path, sql: str) -> None:
    """Do to the file what should never happen to it."""
    connection = apsw.Connection(str(data_dir / NAME))
    connection.execute(sql).fetchall()
    assert connection.changes() > 0, "nothing was damaged"
    connection.close()


async def test_a_whole_store_has_no_findings(tmp_path: Path) -> None:
    await lived(tmp_path)
    assert examine(tmp_path) == []


@pytest.mark.parametrize(
    ("sql", "detail"),
    [
        ("UPDATE sessions SET state = x'00' WHERE id = 'ses_a'", "its state is not what its journal says"),
        ("UPDATE sessions SET sequence = 3 WHERE id = 'ses_a'", "its state is not what its journal says"),
        ("UPDATE messages SET record = x'7b7d' WHERE id = 'msg_a1'", "1 of its messages are not what its journal says"),
        ("DELETE FROM messages WHERE id LIKE 'msg_a%'", "2 of its messages are not what its journal says"),
        ("DELETE FROM turns WHERE id = 'turn_a1'", "1 of its turns are not what its journal says"),
        ("UPDATE permissions SET record = x'ff' WHERE id = 'perm_a1'", "1 of its permissions are not what its journal"),
        ("DELETE FROM bodies WHERE message_id = 'msg_a2'", "what was written in 1 of its messages is missing"),
    ],
)
async def test_what_the_journal_can_tell_is_found_and_mended(tmp_path: Path, sql: str, detail: str) -> None:
    sessions = await lived(tmp_path)
    damage(tmp_path, sql)
    [finding] = examine(tmp_path)
    assert (finding.session_id, finding.mendable) == ("ses_a", True)
    assert finding.detail.startswith(detail)

    copy, mended = repair(tmp_path, stamp="now")

    assert mended == [finding]
    assert examine(tmp_path) == []
    store = await SqliteStore.open(tmp_path, clock=SystemClock())
    assert await store.load("ses_a") == sessions["ses_a"]
    kept = await store.messages(["msg_a1", "msg_a2"])
    assert [one.text for one in kept] == ["first", "edited"]
    assert await store.turn("turn_a1")
    assert await store.reply("turn_a1") == "answer"
    await store.close()
    copied = apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READONLY)
    assert copied.execute("SELECT count(*) FROM sessions").fetchall() == [(2,)]
    copied.close()


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM entries WHERE sequence = 3 AND session = 1",
        "UPDATE entries SET data = x'00' WHERE sequence = 2 AND session = 1",
        "UPDATE entries SET type = 'turn.ended' WHERE sequence = 2 AND session = 1",
    ],
)
async def test_a_flaw_of_the_journal_itself_is_told_and_left_as_it_is(tmp_path: Path, sql: str) -> None:
    sessions = await lived(tmp_path)
    damage(tmp_path, sql)
    before = examine(tmp_path)
    assert [(finding.session_id, finding.mendable) for finding in before] == [("ses_a", False)]
    _, mended = repair(tmp_path, stamp="now")
    assert mended == []
    assert examine(tmp_path) == before
    store = await SqliteStore.open(tmp_path, clock=SystemClock())
    assert await store.load("ses_b") == sessions["ses_b"], "the other session was touched"
    await store.close()


async def test_nothing_is_mended_under_a_host(tmp_path: Path) -> None:
    await lived(tmp_path)
    store = await SqliteStore.open(tmp_path, clock=SystemClock())
    assert examine(tmp_path) == []
    with pytest.raises(StoreUnavailable, match="in use by another host"):
        repair(tmp_path, stamp="now")
    await store.close()
    assert not list(tmp_path.glob("*before-repair*"))


async def test_the_damage_that_is_mended_is_one_that_hurts(tmp_path: Path) -> None:
    await lived(tmp_path)
    damage(tmp_path, "UPDATE sessions SET state = x'00' WHERE id = 'ses_a'")
    store = await SqliteStore.open(tmp_path, clock=SystemClock())
    with pytest.raises(StoreDamaged):
        await store.load("ses_a")
    await store.close()

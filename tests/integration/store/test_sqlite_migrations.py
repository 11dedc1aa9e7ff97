"""A store that an earlier antiphon wrote is brought up to date and keeps what it holds."""

from pathlib import Path

from antiphon.ports.store import KeyedMessage
from antiphon.store.sqlite import SqliteStore
from antiphon.store.sqlite.database import connect
from antiphon.store.sqlite.driver import execute
from antiphon.testing.clocks import CountingClock
from antiphon.testing.drafts import Draft


async def test_keys_of_the_first_schema_are_kept_and_count_as_new(data_dir: Path) -> None:
    store = await SqliteStore.open(data_dir, clock=CountingClock())
    draft = Draft("ses_1")
    for commit in (draft.create(), draft.accept("msg_1", idempotency_key="i", digest="d")):
        await store.commit(commit)
    await store.close()
    connection = connect(store.path, None, writes=True)
    for table in ("webhooks", "deliveries", "schedules"):
        execute(connection, f"DROP TABLE {table}")
    execute(connection, "ALTER TABLE keys DROP COLUMN spent_at; PRAGMA user_version = 1")
    connection.close()

    again = await SqliteStore.open(data_dir, clock=CountingClock())
    assert await again.keyed("ses_1", "i") == KeyedMessage(message_id="msg_1", digest="d")
    await again.commit(draft.accept("msg_2", idempotency_key="j"))
    await again.close()
    connection = connect(again.path, None, writes=True)
    [(spent_at,)] = execute(connection, "SELECT spent_at FROM keys WHERE key = 'i'")
    connection.close()
    assert spent_at > draft.session.active_at

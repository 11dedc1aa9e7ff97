"""The schema in the database: made, and brought up to date, by one host at a time."""

import re
import secrets

from antiphon.core.errors import StoreUnavailable
from antiphon.ports.store import StoreDamaged
from antiphon.store.migrations import migrations, pending
from antiphon.store.postgres.driver import Connection

MIN_SERVER = 140000
"""The first PostgreSQL whose SQL has everything that is used here, as the number that servers tell."""


def require_name(schema: str) -> None:
    """Refuse what would have to be quoted.

    Raises:
        ValueError: It is not a plain identifier.
    """
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,50}", schema):
        raise ValueError(f"a schema's name has small letters, digits and _: not {schema!r}")


def copy_lock(schema: str) -> str:
    """The name of the advisory lock that is held while a store is copied from there, or to there."""
    return f"antiphon copy {schema}"


async def prepare(connection: Connection, schema: str) -> dict[str, str]:
    """Bring the schema up to date. The connection's search path is `schema`.

    Returns:
        What the store says of itself: the rows of `meta`, with the journal's `epoch`.

    Raises:
        StoreDamaged: The schema is of a later antiphon, or the server is too old.
        StoreUnavailable: It is being copied by somebody else.
    """
    version = connection.get_server_version()
    if version.major * 10000 < MIN_SERVER:
        raise StoreDamaged(f"PostgreSQL {version.major} is too old for antiphon's store: it needs 14 or later.")
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", f"antiphon schema {schema}")
        free = await connection.fetchval(
            "SELECT pg_try_advisory_xact_lock_shared(hashtextextended($1, 0))", copy_lock(schema)
        )
        if not free:
            raise StoreUnavailable("The store in this database is being copied; wait for the end of that.")
        await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        await connection.execute("CREATE TABLE IF NOT EXISTS meta (name text PRIMARY KEY, value text NOT NULL)")
        await connection.execute(
            "INSERT INTO meta VALUES ('version', '0'), ('epoch', $1) ON CONFLICT DO NOTHING", secrets.token_hex(6)
        )
        known = dict(await connection.fetch("SELECT name, value FROM meta"))
        steps = pending(migrations("antiphon.store.postgres.migrations"), int(known["version"]), f"schema {schema!r}")
        for step in steps:
            await connection.execute(step.sql)
            await connection.execute("UPDATE meta SET value = $1 WHERE name = 'version'", str(step.number))
    return known

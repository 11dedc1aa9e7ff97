"""Runs store commands on SQLite."""

import re
from functools import lru_cache
from typing import Any, TypeVar

import apsw

from antiphon.store.sql.statements import Command, Row

T = TypeVar("T")


@lru_cache(maxsize=1024)
def translated(sql: str) -> str:
    """SQL with `?1` for `$1`: SQLite takes `$1` for a name and numbers names as they come."""
    return re.sub(r"\$(\d+)", r"?\1", sql)


def execute(connection: apsw.Connection, sql: str, args: tuple[Any, ...] = ()) -> list[Row]:
    """Run one statement and give all its rows.

    Raises:
        apsw.Error: The engine failed.
    """
    untyped: Any = connection  # its stubs are not typed to the end
    return untyped.execute(sql, args).fetchall()


def run(connection: apsw.Connection, command: Command[T]) -> T:
    """Run a command to its end in the transaction that is open, and give its result.

    Raises:
        apsw.Error: The engine failed.
        Exception: Whatever the command raises.
    """
    try:
        sql, args = next(command)
        while True:
            sql, args = command.send(execute(connection, translated(sql), args))
    except StopIteration as end:
        return end.value
    finally:
        command.close()

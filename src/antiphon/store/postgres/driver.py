"""Connections to PostgreSQL, and store commands run on them."""

import socket
import sys
from typing import Any, TypeVar, cast
from urllib.parse import unquote, urlsplit

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from antiphon.store.sql.statements import Command

T = TypeVar("T")
Connection = Any
"""An asyncpg connection, of a pool or not."""

UNHEARD_S = 10
"""After so long without an answer a connection is given up by the network itself, at both ends."""
KEEPALIVE = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "2",
    "tcp_user_timeout": str(UNHEARD_S * 1000),
}
"""A host whose machine vanished is noticed by the server within about 15 s, and its claims with it; where hosts share
the store, one of the others ends its connections before that."""
ADDRESS_S = 3.0
"""Where a URL names several servers, each has so long to answer."""
CONNECT_S = 10.0
HOST_NAME = "antiphon host"
CLAIMS_NAME = "antiphon claims"
"""What connections are called at the server (`application_name`): of a store's pool, and the one that holds its claims.
Something that tells this store from all others follows."""


def connect_options(url: str, schema: str, timeout_s: float) -> dict[str, Any]:
    """What every connection of the store is made with, by `connect`."""
    milliseconds = str(int(timeout_s * 1000))
    return {
        "route": Route(url),
        "timeout": min(timeout_s, CONNECT_S),
        "command_timeout": timeout_s,
        "server_settings": {
            "application_name": "antiphon",
            "search_path": schema,
            "jit": "off",
            "statement_timeout": milliseconds,
            "idle_in_transaction_session_timeout": milliseconds,
            **KEEPALIVE,
        },
    }


def named(options: dict[str, Any], name: str, **other: Any) -> dict[str, Any]:
    """The options for connections of this name at the server."""
    return options | {"server_settings": options["server_settings"] | {"application_name": name}} | other


class Route:
    """The way to the server. Of several that a URL names, the one that takes writes is the server.

    libpq's URLs may name several (`postgresql://a,b:5433/db`,
    https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-MULTIPLE-HOSTS). asyncpg gives all of them together
    one timeout, so that a first one whose machine is gone would use it up; here each has its own, and the last that
    served is asked first.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._addresses = addresses(url)
        self._wanted = {} if "target_session_attrs" in url else {"target_session_attrs": "read-write"}
        self._best = 0

    async def connect(self, *, timeout: float, **options: Any) -> Connection:
        """A connection to the server.

        Raises:
            FAULTS: None of the addresses serves.
            ValueError: The URL can't be read.
        """
        if len(self._addresses) < 2:
            return await self._connected(timeout=timeout, **options)
        count = len(self._addresses)
        last: Exception | None = None
        for number in [(self._best + step) % count for step in range(count)]:
            try:
                host, port = self._addresses[number]
                connection = await self._connected(
                    host=host, port=port, timeout=min(timeout, ADDRESS_S), **self._wanted, **options
                )
            except ELSEWHERE as error:
                last = error
            else:
                self._best = number
                return connection
        assert last is not None, "there are addresses"
        raise last

    async def _connected(self, **options: Any) -> Connection:
        connection = await cast(Any, asyncpg).connect(self._url, **options)
        give_up_unheard(connection)
        return connection


ELSEWHERE = (
    OSError,
    TimeoutError,
    asyncpg.CannotConnectNowError,
    asyncpg.ConnectionDoesNotExistError,
    asyncpg.TargetServerAttributeNotMatched,
)
"""What makes it worth asking the next address: this one is not there, or not the one that takes writes."""


def addresses(url: str) -> list[tuple[str, int | None]]:
    """The servers that a URL names in its authority, with their ports if it has them; none if it can't be read."""
    try:
        places = [urlsplit(f"//{place}") for place in urlsplit(url).netloc.rpartition("@")[2].split(",")]
        return [(unquote(place.hostname), place.port) for place in places if place.hostname]
    except ValueError:  # asyncpg says what is wrong with it
        return []


def give_up_unheard(connection: Connection) -> None:
    """Have the operating system give the connection up when the other end does not confirm what it is sent.

    PostgreSQL's own settings do so at the server; libpq's for the client are none of asyncpg's.
    """
    sock = connection._transport.get_extra_info("socket")  # noqa: SLF001  # there is no other way to it
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        for option, value in (
            (socket.TCP_KEEPIDLE, 5),
            (socket.TCP_KEEPINTVL, 5),
            (socket.TCP_KEEPCNT, 2),
            (socket.TCP_USER_TIMEOUT, UNHEARD_S * 1000),
        ):
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


async def connect(options: dict[str, Any]) -> Connection:
    """A connection of its own."""
    route = cast(Route, options["route"])
    return await route.connect(**{name: value for name, value in options.items() if name != "route"})


async def make_pool(options: dict[str, Any], connections: int) -> Any:
    """A pool that makes connections as they are needed."""

    async def connected(*_: Any, connection_class: Any, record_class: Any, **_others: Any) -> Connection:
        return await connect(options | {"connection_class": connection_class, "record_class": record_class})

    return await cast(Any, asyncpg).create_pool(
        min_size=0, max_size=connections, reset=_keep_as_it_is, connect=connected
    )


async def _keep_as_it_is(connection: Connection) -> None:
    """Nothing in a session is ever changed, so nothing costs a round trip to change back."""


async def run(connection: Connection, command: Command[T]) -> T:
    """Run a command to its end, and give its result.

    Raises:
        asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError: The engine, or the way to it, failed.
        Exception: Whatever the command raises.
    """
    try:
        sql, args = next(command)
        while True:
            found = await connection.fetch(sql, *args)
            sql, args = command.send([tuple(row) for row in found])
    except StopIteration as end:
        return end.value
    finally:
        command.close()


async def in_transaction(connection: Connection, command: Command[T], *, read_only: bool) -> T:
    """Run a command in a transaction; one that only reads sees a single state of the store."""
    isolation = "repeatable_read" if read_only else "read_committed"
    async with connection.transaction(isolation=isolation, readonly=read_only):
        return await run(connection, command)

"""Composition: the one place that names concrete stores and agents and puts a host together."""

import asyncio
import contextlib
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from antiphon import __version__
from antiphon.agents.catalogue import UnknownAdapter, build
from antiphon.agents.environment import clean_environment
from antiphon.agents.vitals import SystemVitals
from antiphon.config import Config, ConfigError
from antiphon.configured import agent_tables, configuration
from antiphon.core.errors import AntiphonError
from antiphon.errands import Errands, WholeStore
from antiphon.host.host import Host
from antiphon.http.app import create_app
from antiphon.http.server import Server
from antiphon.http.token_store import TokenStore
from antiphon.ports.agent import Agent
from antiphon.store.address import shown
from antiphon.system import SystemClock, SystemIds, tune_for_serving
from antiphon.telemetry import logs
from antiphon.telemetry.metrics import Metrics

log = logging.getLogger("antiphon")

LAST_PORT = "port"
"""The file in the data directory that remembers it."""
REQUEST_GRACE_S = 2.0


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `antiphon serve` was asked for.

    Attributes:
        host, port: Where to listen; port 0 takes a free one.
        data_dir: Where everything is kept that must last.
        store: `sqlite` (in the data directory, the default), `memory` (nothing lasts), or a `postgresql://` address.
        config: The configuration file; None for `antiphon.toml` in the data directory, which need not exist.
        log_level: `debug`, `info`, `warning` or `error`.
    """

    host: str = "127.0.0.1"
    port: int = 0
    data_dir: Path
    store: str | None = None
    config: Path | None = None
    log_level: str = "info"


class CannotServe(Exception):
    """The host can't start; the text says why and what to do."""


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    data_dir: Path | str,
    store: str | None = None,
    config: Path | str | None = None,
    log_level: str = "info",
) -> int:
    """Run a host until a signal ends it. The exit code: 0 after a clean stop, 1 when it could not serve."""
    options = ServeOptions(
        host=host,
        port=port,
        data_dir=Path(data_dir).absolute(),
        store=store or os.environ.get("ANTIPHON_STORE") or None,
        config=Path(config) if config else None,
        log_level=log_level,
    )
    logs.configure(level=log_level.upper())
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(options))
    except (CannotServe, ConfigError, AntiphonError) as error:
        _say(f"antiphon: {error}")
        return 1


async def _serve(options: ServeOptions) -> int:
    _prepare(options.data_dir)
    config = configuration(options.data_dir, options.config)
    clock, ids = SystemClock(), SystemIds()
    async with _opened(options, clock) as store:
        host = Host(
            store=store,
            agents=_agents(config),
            clock=clock,
            ids=ids,
            settings=config.settings(os.environ),
            workspace=lambda session_id: _workspace(options.data_dir, session_id),
            belongings=options.data_dir / "conversations",
            environment=clean_environment,
            store_name=_store_kind(options),
            vitals=SystemVitals(),
            peers=store.peers,
            name=config.host.name or socket.gethostname(),
        )
        metrics = Metrics()
        errands = Errands(store, host, clock=clock, ids=ids, table=config.webhooks, metrics=metrics)
        token = secrets.token_urlsafe(32)
        app = create_app(
            host,
            errands=errands,
            token=token,
            tokens=TokenStore(options.data_dir / "tokens.json", clock, ids),
            bound=options.host,
            allowed_hosts=config.http.allowed_hosts,
            metrics=metrics,
        )
        return await _live(options, host, errands, Server(app), token)


async def _live(options: ServeOptions, host: Host, errands: Errands, server: Server, token: str) -> int:
    """Recover, serve, announce; then wait for the end, and end in order: turns, agents, requests, the store."""
    stopping, ready = asyncio.Event(), options.data_dir / "ready.json"
    with _bound(options) as sock, _signals(host, stopping):
        port = sock.getsockname()[1]
        url = f"http://{_address(options.host)}:{port}"
        try:
            await host.start(url)
            errands.start()
            async with asyncio.TaskGroup() as group:
                group.create_task(_served(server, sock, stopping))
                await server.started()
                with contextlib.suppress(OSError):  # it is a convenience, and the store tells of a full disk
                    (options.data_dir / LAST_PORT).write_text(str(port))
                _announce(ready, {"url": url, "pid": os.getpid(), "token": token, "version": __version__})
                log.info("serving", extra={"action": "serving", "pid": os.getpid(), "version": __version__})
                _say(f"antiphon {__version__} serves at {url}")
                tune_for_serving()
                await stopping.wait()
                await host.stop()
                await server.stop(REQUEST_GRACE_S)
        finally:
            await host.stop()
            await errands.stop()
            ready.unlink(missing_ok=True)
    log.info("stopped", extra={"action": "stopped", "pid": os.getpid()})
    return 0


async def _served(server: Server, sock: socket.socket, stopping: asyncio.Event) -> None:
    """Serve; a server that ends by itself ends the host."""
    try:
        await server.serve(sock)
    finally:
        stopping.set()


@contextlib.contextmanager
def _signals(host: Host, stopping: asyncio.Event) -> Generator[None]:
    """Within the block the first SIGTERM or SIGINT asks for a clean end, and the next one hurries it."""

    def told() -> None:
        if stopping.is_set():
            host.hurry()
        else:
            _say("antiphon: draining; a second signal hurries")
            host.drain()
            stopping.set()

    loop, numbers = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, told)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _prepare(data_dir: Path) -> None:
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise CannotServe(f"The data directory {data_dir} can't be made: {error.strerror}.") from error


@contextlib.asynccontextmanager
async def _opened(options: ServeOptions, clock: SystemClock) -> AsyncGenerator[WholeStore]:
    """The store, closed in the end."""
    with _alone(options):
        store = await _open(options, clock)
        try:
            yield store
        finally:
            await store.close()


@contextlib.contextmanager
def _alone(options: ServeOptions) -> Generator[None]:
    """Be the only host on the data directory, whatever else it shares: its tokens and conversations are there."""
    if _store_kind(options) == "sqlite":  # that store sees to it by itself
        yield
        return
    from antiphon.store.sqlite.lock import DirectoryLock

    try:
        lock = DirectoryLock.take(options.data_dir / "antiphon.lock")
    except OSError as error:
        raise CannotServe(f"The data directory {options.data_dir} can't be used: {error.strerror}.") from error
    try:
        yield
    finally:
        lock.release()


async def _open(options: ServeOptions, clock: SystemClock) -> WholeStore:
    kind = _store_kind(options)
    if kind == "sqlite":
        from antiphon.store.sqlite import SqliteStore

        return await SqliteStore.open(options.data_dir, clock=clock)
    if kind == "memory":
        from antiphon.store.memory import MemoryStore

        return MemoryStore(epoch=secrets.token_hex(6))
    if kind == "postgresql":
        return await _open_postgres(options.store or "", clock)
    named = shown(options.store or "")
    raise CannotServe(f"--store takes sqlite, memory or a postgresql:// address, not {named!r}.")


async def _open_postgres(url: str, clock: SystemClock) -> WholeStore:
    try:
        from antiphon.store.postgres import PostgresStore
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        raise CannotServe("PostgreSQL needs: pip install 'antiphon[postgres]'") from error
    return await PostgresStore.open(url, clock=clock)


def _store_kind(options: ServeOptions) -> str:
    name = (options.store or "sqlite").partition(":")[0]
    return "postgresql" if name == "postgres" else name


def _agents(config: Config) -> Mapping[str, Agent]:
    """The built-in agents, and those that the configuration names or changes."""
    try:
        return {name: build(table.adapter, name, table.options) for name, table in agent_tables(config).items()}
    except UnknownAdapter as error:
        raise CannotServe(str(error)) from error


def _workspace(data_dir: Path, session_id: str) -> str:
    """The working directory of a session that names none."""
    path = data_dir / "workspaces" / session_id
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return str(path)


def _bound(options: ServeOptions) -> socket.socket:
    """The socket to serve on. One that may be any is that of the last time, so that pages go on."""
    last = _last_port(options.data_dir) if options.port == 0 else 0
    if last:
        with contextlib.suppress(OSError):
            return _listening(options.host, last)
    try:
        return _listening(options.host, options.port)
    except OSError as error:
        where = f"{options.host}:{options.port}"
        raise CannotServe(f"Can't listen on {where}: {error.strerror}. Choose another --port, or 0.") from error


def _listening(host: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(2048)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def _last_port(data_dir: Path) -> int:
    """The port of the last time; 0 where none is known."""
    try:
        port = int((data_dir / LAST_PORT).read_text())
    except (OSError, ValueError):
        return 0
    return port if 0 < port < 1 << 16 else 0


def _address(host: str) -> str:
    """The address under which a local command reaches what listens on `host`."""
    reached = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104
    return f"[{reached}]" if ":" in reached else reached


def _announce(path: Path, ready: dict[str, Any]) -> None:
    """Write `ready.json` so that it is never seen in part, nor by others."""
    beside = path.with_name(f".ready.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(ready))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def examine_store(data_dir: Path, told: Callable[[str], None]) -> list[tuple[str, bool]]:
    """What is damaged in a data directory's store, in words, and whether `repair_store` can mend it. Changes nothing.

    Raises:
        AntiphonError: The store can't be read at all.
    """
    from antiphon.store.sqlite import doctor

    return [(_told(finding), finding.mendable) for finding in doctor.examine(data_dir, told=told)]


def repair_store(data_dir: Path, told: Callable[[str], None]) -> tuple[Path, list[str]]:
    """Mend what can be mended in a data directory's store; the copy that was kept, and what was mended, in words.

    Raises:
        AntiphonError: A host runs on the directory, or the store can't be read or written.
    """
    from antiphon.store.sqlite import doctor

    copy, mended = doctor.repair(data_dir, stamp=str(SystemClock().now()), told=told)
    return copy, [_told(finding) for finding in mended]


def _told(finding: Any) -> str:
    return f"session {finding.session_id}: {finding.detail}" if finding.session_id else finding.detail

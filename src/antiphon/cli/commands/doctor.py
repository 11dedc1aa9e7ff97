"""`antiphon doctor`: looks for what is wrong and says what to do. Only `--repair` changes anything."""

import os
import stat
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from antiphon import __version__
from antiphon.cli.context import Context
from antiphon.cli.exits import DONE, FAILED, told
from antiphon.cli.grammar import Given
from antiphon.cli.output import Output, in_a_row
from antiphon.client.errors import ApiError, ClientError, HostNotReached
from antiphon.client.local import LocalHost, Ready, is_alive
from antiphon.client.sync import Client

FREE_BYTES_MIN = 100 << 20
LOG_TAIL_BYTES = 2000
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afs", "ceph", "glusterfs"}
)


class Finding(NamedTuple):
    """One thing that was looked at. `level` is `ok`, `warning` or `wrong`; `advice` says what to do."""

    check: str
    level: str
    detail: str
    advice: str = ""


def doctor(context: Context, given: Given) -> int:
    """Print what was found; exit code 1 when something is wrong."""
    findings = list(_remote(context) if context.url else _local(context))
    if not context.url:
        findings += _store(context, mend=given.flag("repair"))
    healthy = all(finding.level != "wrong" for finding in findings)
    if context.out.as_json:
        context.out.document({"healthy": healthy, "findings": [finding._asdict() for finding in findings]})
    else:
        for finding in findings:
            _print(context.out, finding)
    return DONE if healthy else FAILED


def _remote(context: Context) -> Iterator[Finding]:
    assert context.url, "a host that is not this machine's has an address"
    yield Finding("version", "ok", f"this is antiphon {__version__}")
    try:
        with Client(context.url, context.token) as client:
            yield from _host(client, context.url)
    except HostNotReached as error:
        yield Finding("host", "wrong", str(error), "Look at ANTIPHON_URL, or whether the host runs on its machine.")


def _local(context: Context) -> Iterator[Finding]:
    host = context.local
    yield Finding("version", "ok", f"this is antiphon {__version__}")
    if not os.path.isdir(host.data_dir):  # noqa: PTH112
        yield Finding("data directory", "ok", f"{host.data_dir} does not exist; the first command makes it")
        return
    yield from _data_dir(host.data_dir)
    ready = host.ready()
    yield from _ready(host, ready)
    if ready is None or not host.answers():
        yield from _log(host)
        return
    if ready.version != __version__:
        advice = "Restart the host, so that both are of one version."
        yield Finding("host version", "warning", f"the host is antiphon {ready.version or 'of no version'}", advice)
    with Client(ready.url, context.token or ready.token) as client:
        yield from _host(client, ready.url)


def _store(context: Context, *, mend: bool) -> Iterator[Finding]:
    """Everything that is kept, read once; with `mend`, what the journal can tell is written anew."""
    directory = Path(context.local.data_dir)
    if not (directory / "antiphon.db").exists():
        return
    composition = import_module("antiphon.main")  # the store and its engine, which no other command needs
    try:
        if mend:
            copy, mended = composition.repair_store(directory, context.out.note)
            yield Finding("repair", "ok", f"{len(mended)} mended, the store as it was is kept as {copy.name}")
            yield from (Finding("repair", "ok", f"mended: {detail}") for detail in mended)
        damaged: list[tuple[str, bool]] = composition.examine_store(directory, context.out.note)
    except composition.AntiphonError as error:
        yield Finding("store", "wrong", str(error), _store_advice(mend=mend))
        return
    for detail, mendable in damaged:
        advice = "Stop the host, then `antiphon doctor --repair`: the journal can tell it." if mendable else UNMENDABLE
        yield Finding("store", "wrong", detail, advice)
    if not damaged:
        yield Finding("store", "ok", "everything in it can be read and agrees with its journal")


UNMENDABLE = (
    "Keep a copy of the data directory and restore it from a backup, or `antiphon session delete` that session."
)


def _store_advice(*, mend: bool) -> str:
    if mend:
        return "Stop the host on this directory first; see that the disk has room for a copy."
    return "Keep a copy of the data directory and restore the store from a backup."


def _data_dir(path: str) -> Iterator[Finding]:
    """The directory itself: whose it is, who may read it, whether there is room."""
    name = "data directory"
    found = os.stat(path)  # noqa: PTH116
    if found.st_uid != os.geteuid():
        advice = "Run antiphon as the user that it belongs to, or choose another --data-dir."
        yield Finding(name, "wrong", f"{path} belongs to user {found.st_uid}, this is {os.geteuid()}", advice)
    elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(name, "wrong", f"{path} can't be read and written", f"chmod u+rwx {path}")
    elif stat.S_IMODE(found.st_mode) & 0o077:
        yield Finding(name, "warning", f"{path} is open to other users", f"chmod go-rwx {path}")
    else:
        yield Finding(name, "ok", path)
    kind = _file_system(path)
    if kind in NETWORK_FILE_SYSTEMS:
        advice = "SQLite needs a disk of this machine: choose another --data-dir, or --store postgresql://…"
        yield Finding("file system", "warning", f"{path} is on {kind}", advice)
    room = os.statvfs(path)
    free = room.f_bavail * room.f_frsize
    if free < FREE_BYTES_MIN:
        yield Finding(
            "disk", "wrong", f"{free >> 20} MB are free at {path}", "Make room: nothing can be accepted on a full disk."
        )
    else:
        yield Finding("disk", "ok", f"{free >> 20} MB are free")


def _ready(host: LocalHost, ready: Ready | None) -> Iterator[Finding]:
    """Whether `ready.json` is private and tells the truth."""
    path = host.path("ready.json")
    if not os.path.exists(path):  # noqa: PTH110
        yield Finding("host", "ok", "no host runs; the next command starts one")
    elif ready is None:
        yield Finding("ready.json", "wrong", f"{path} can't be read as what a host writes", f"rm {path}")
    elif not is_alive(ready.pid):
        detail = f"{path} names process {ready.pid}, which is gone: the host ended without a goodbye"
        yield Finding("ready.json", "warning", detail, "Nothing to do: the next command starts a host.")
    elif not host.answers():
        detail = f"process {ready.pid} lives, but nobody answers at {ready.url}"
        yield Finding("ready.json", "wrong", detail, f"See whether {ready.pid} is an antiphon that hangs, and end it.")
    elif stat.S_IMODE(os.stat(path).st_mode) & 0o077:  # noqa: PTH116
        yield Finding("ready.json", "wrong", f"{path} holds a token, and others can read it", f"chmod 600 {path}")
    else:
        yield Finding("ready.json", "ok", f"process {ready.pid} at {ready.url}")


def _host(client: Client, url: str) -> Iterator[Finding]:
    """Whether the host takes messages and which agents it can run."""
    try:
        status = client.status()
        agents = client.agents()
    except ApiError as error:
        yield Finding("host", "wrong", f"{url}: {told(error)}")
        return
    except ClientError as error:
        yield Finding("host", "wrong", str(error), "Look at its log, and restart it if it hangs.")
        return
    if status.draining:
        yield Finding("host", "warning", f"{url} is shutting down", "Wait for it, or start it again.")
    else:
        yield Finding("host", "ok", f"{url} takes messages; {status.turns_running} turns run")
    for agent in agents:
        if agent.available:
            yield Finding(f"agent {agent.name}", "ok", "can run")
        else:
            yield Finding(f"agent {agent.name}", "ok", f"can't run: {agent.missing}")
    if not any(agent.available for agent in agents):
        yield Finding("agents", "wrong", "the host can run none", "`antiphon agent check` says what is missing.")


def _log(host: LocalHost) -> Iterator[Finding]:
    """What a host that was started in the background said last, where it may be why none runs."""
    tail = host.log_tail(LOG_TAIL_BYTES)
    if tail:
        last = tail.rstrip().rpartition("\n")[2]
        yield Finding("host.log", "ok", f"{host.log} ends with: {last[:300]}")


def _file_system(path: str) -> str:
    """The type of the file system that a path is on, as Linux names it; empty where that can't be told."""
    best, kind = "", ""
    real = os.path.realpath(path)
    try:
        with open("/proc/mounts", encoding="utf-8", errors="surrogateescape") as mounts:  # noqa: PTH123
            for line in mounts:
                _, place, name, *_ = line.split(" ")
                inside = real == place or real.startswith(place.rstrip("/") + "/")
                if inside and len(place) >= len(best):
                    best, kind = place, name
    except OSError:
        return ""
    return kind


def _print(out: Output, finding: Finding) -> None:
    out.finished(f"{out.coloured(finding.level.ljust(8))} {in_a_row(finding.check)}: {in_a_row(finding.detail)}")
    if finding.advice:
        out.finished(f"{'':8} -> {in_a_row(finding.advice)}")

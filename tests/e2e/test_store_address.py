"""Where a host keeps its sessions may come from the environment, and its password is told to nobody."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from e2e.driver import Host, until
from real_postgres import RealPostgres

PASSWORD = "a-word-that-only-the-database-may-hear"
OWNER = "guarded"


@pytest.fixture(scope="module")
def guarded(real_postgres: RealPostgres) -> str:
    """The address, without its password, of a database into which nobody comes without one."""
    import asyncio

    database = real_postgres.new_database()

    async def guard() -> None:
        connection = await asyncpg.connect(real_postgres.url)
        await connection.execute(f"CREATE ROLE {OWNER} LOGIN PASSWORD '{PASSWORD}'")
        await connection.execute(f"ALTER DATABASE {urlsplit(database).path.strip('/')} OWNER TO {OWNER}")
        await connection.close()

    asyncio.run(guard())
    access = real_postgres.data / "pg_hba.conf"
    access.write_text(f"host all {OWNER} 127.0.0.1/32 scram-sha-256\n" + access.read_text())
    real_postgres.reload()
    address = database.replace("//postgres@", f"//{OWNER}@")
    until(lambda: asyncio.run(refused(address)), "a database that wants a password", 30)
    return address


async def refused(address: str) -> bool:
    """Whether an address without a password is refused."""
    try:
        connection = await asyncpg.connect(address, passfile="/nonexistent")
    except (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError):
        return True
    await connection.close()
    return False


@pytest.fixture
def quiet_host(antiphon_command: str, tmp_path: Path) -> Iterator[Host]:
    """A data directory without a host."""
    host = Host(antiphon_command, tmp_path / "host")
    host.environment["HOME"] = str(tmp_path)
    yield host
    host.close()


def with_password(address: str) -> str:
    return address.replace(f"{OWNER}@", f"{OWNER}:{PASSWORD}@")


def kept_in(host: Host) -> str:
    """The store that the host says it has."""
    return json.loads(host.cli("status", "--json", "--no-start").out)["store"]


def mentions(host: Host, also: str = "") -> list[str]:
    """Where the password can be read: what processes were started with, logs, what commands and the host tell."""
    told = {
        "serve.log": host.log.read_text() if host.log.exists() else "",
        "host.log": (host.data / "host.log").read_text() if (host.data / "host.log").exists() else "",
        "ready.json": (host.data / "ready.json").read_text(),
        "config": host.cli("config").out + host.cli("config", "--json").out,
        "doctor": "".join(host.cli("doctor", "--json")[1:]),
        "status": json.dumps(host.api("GET", "/status").json) + host.cli("status").out,
        "hosts": json.dumps(host.api("GET", "/hosts").json),
        "else": also,
    }
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                told[f"process {entry.name}"] = (entry / "cmdline").read_text(errors="replace")
    return [place for place, text in told.items() if PASSWORD in text]


def test_a_command_starts_a_host_on_the_store_that_the_environment_names(quiet_host: Host, guarded: str) -> None:
    host = quiet_host
    host.environment["ANTIPHON_STORE"] = with_password(guarded)

    done = host.cli("session", "message", "desk", "hello", "--agent", "echo", seconds=60)

    assert (done.code, done.out) == (0, "echo: hello\n"), done.err
    host.read_ready()
    assert kept_in(host) == "postgresql"
    assert not (host.data / "antiphon.db").exists()
    busy = host.post("desk", "[[hold gate]]").json
    until(lambda: host.receipt(busy["id"])["state"] == "running", "an agent that runs")
    assert mentions(host) == []
    assert f"{OWNER}:[hidden]@" in json.loads(host.cli("config", "--json").out)["store"]
    environments = [(Path("/proc") / str(pid) / "environ").read_bytes() for pid in agents_of(host)]
    assert environments
    assert not any(PASSWORD.encode() in environment for environment in environments)
    host.release()


def agents_of(host: Host) -> list[int]:
    """The processes that work in the directory of the host's sessions and are no host."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "cwd").readlink() == host.work and b"echo" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


@pytest.mark.parametrize("way", ["variable", "file", "file in the usual place"])
def test_a_password_can_stay_out_of_the_address_as_for_every_client_of_postgresql(
    quiet_host: Host, guarded: str, way: str, tmp_path: Path
) -> None:
    host, place = quiet_host, urlsplit(guarded)
    host.environment["ANTIPHON_STORE"] = guarded
    passfile = tmp_path / (".pgpass" if "usual" in way else "secret")
    if way == "variable":
        host.environment["PGPASSWORD"] = PASSWORD
    else:
        passfile.write_text(f"{place.hostname}:{place.port}:{place.path.strip('/')}:{OWNER}:{PASSWORD}\n")
        passfile.chmod(0o600)
    if way == "file":
        host.environment["PGPASSFILE"] = str(passfile)
    host.start()
    assert host.cli("session", "message", way, "hello", "--agent", "echo").out == "echo: hello\n"
    assert kept_in(host) == "postgresql"
    assert mentions(host) == []


def test_what_is_given_on_the_command_line_wins_over_the_environment(quiet_host: Host, guarded: str) -> None:
    quiet_host.environment["ANTIPHON_STORE"] = guarded
    host = quiet_host.start("--store", "sqlite")
    assert kept_in(host) == "sqlite"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (f"postgresql://{OWNER}:{PASSWORD}@127.0.0.1:1/antiphon", "can't be reached"),
        (f"postgresql://{OWNER}:{PASSWORD}@[::1/antiphon", "can't be read"),
        (f"postgresql+asyncpg://{OWNER}:{PASSWORD}@127.0.0.1/antiphon", "--store takes"),
        (f"mysql://{OWNER}:{PASSWORD}@127.0.0.1/antiphon", "--store takes"),
    ],
    ids=["nobody-there", "malformed", "another-driver", "another-database"],
)
def test_an_error_about_the_store_does_not_say_its_password(quiet_host: Host, address: str, said: str) -> None:
    quiet_host.environment["ANTIPHON_STORE"] = address
    served = quiet_host.cli("serve", "--port", "0")
    copied = quiet_host.cli("store", "copy", address, str(quiet_host.home / "copy"))
    for done in (served, copied):
        assert done.code != 0
        assert PASSWORD not in done.out + done.err
    assert said in served.err


def test_a_host_that_cannot_start_in_the_background_says_why_without_its_password(quiet_host: Host) -> None:
    quiet_host.environment["ANTIPHON_STORE"] = f"postgresql://{OWNER}:{PASSWORD}@127.0.0.1:1/antiphon"
    asked = quiet_host.cli("session", "list", seconds=60)
    assert asked.code == 5
    assert "can't be reached" in asked.err
    assert PASSWORD not in asked.out + asked.err + (quiet_host.data / "host.log").read_text()


def test_a_wrong_password_is_refused_without_being_said(quiet_host: Host, guarded: str) -> None:
    quiet_host.environment["ANTIPHON_STORE"] = with_password(guarded).replace(PASSWORD, PASSWORD[::-1])
    served = quiet_host.cli("serve", "--port", "0")
    assert served.code == 1
    assert "refuses the login" in served.err
    assert PASSWORD[::-1] not in served.out + served.err

"""Finding this machine's host by its data directory."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.client import Client, HostNotReached
from antiphon.client.local import LocalHost, default_data_dir, is_alive


@pytest.fixture
def dead_pid() -> int:
    """The pid of a process that has ended and was reaped."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(10)
    return process.pid


@pytest.fixture
def port() -> Iterator[int]:
    """A port where somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def written(data_dir: Path, **fields: object) -> LocalHost:
    """A data directory with a ready.json."""
    data_dir.mkdir(exist_ok=True)
    ready = {"url": "http://127.0.0.1:9", "pid": os.getpid(), "token": "t", "version": "1"} | fields
    (data_dir / "ready.json").write_text(json.dumps(ready))
    return LocalHost(str(data_dir))


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"ANTIPHON_DATA_DIR": "/a/b", "XDG_DATA_HOME": "/x"}, "/a/b"),
        ({"XDG_DATA_HOME": "/x"}, "/x/antiphon"),
        ({"XDG_DATA_HOME": "relative", "HOME": "/home/me"}, "/home/me/.local/share/antiphon"),
        ({"ANTIPHON_DATA_DIR": "", "HOME": "/home/me"}, "/home/me/.local/share/antiphon"),
    ],
)
def test_the_data_directory_is_where_the_environment_says(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTIPHON_DATA_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert default_data_dir() == expected


def test_a_living_host_is_found_by_its_ready_file(tmp_path: Path, port: int) -> None:
    host = written(tmp_path / "data", url=f"http://127.0.0.1:{port}")

    assert host.answers()
    assert host.address().token == "t"
    assert LocalHost(host.data_dir, token="mine").address().token == "mine"


def test_a_ready_file_of_a_dead_process_names_no_host(tmp_path: Path, port: int, dead_pid: int) -> None:
    host = written(tmp_path / "data", url=f"http://127.0.0.1:{port}", pid=dead_pid)

    assert not host.answers()
    with pytest.raises(HostNotReached, match=str(dead_pid)):
        host.address()


def test_a_ready_file_where_nobody_listens_names_no_host(tmp_path: Path, port: int) -> None:
    host = written(tmp_path / "data")

    assert not host.answers()


@pytest.mark.parametrize("content", ["", "{", "[]", "5", '{"url": "http://x"}', '{"url": 1, "pid": "x"}'])
def test_a_damaged_ready_file_is_none(content: str, tmp_path: Path) -> None:
    (tmp_path / "ready.json").write_text(content)

    host = LocalHost(str(tmp_path))

    assert host.ready() is None
    with pytest.raises(HostNotReached, match="antiphon serve"):
        host.address()


def test_looking_for_a_host_makes_no_directory(tmp_path: Path) -> None:
    with pytest.raises(HostNotReached):
        Client.local(tmp_path / "none", start=False)

    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("pid", [0, -1, 1 << 80])
def test_numbers_that_no_process_has_are_not_alive(pid: int) -> None:
    assert not is_alive(pid)


def test_a_process_of_somebody_else_is_alive() -> None:
    assert is_alive(1)
    assert is_alive(os.getpid())

"""Processes are real here, and both event loops that a host may run on are tried."""

import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon.agents.process import AgentProcess, clean_environment
from antiphon.testing.processes import eventually, marked, new_mark

LOOPS = {"asyncio": ("asyncio", {"use_uvloop": False}), "uvloop": ("asyncio", {"use_uvloop": True})}

Start = Callable[..., Awaitable[AgentProcess]]


@pytest.fixture(params=list(LOOPS.values()), ids=list(LOOPS), scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """Every test of this folder runs on asyncio's loop and on uvloop's."""
    return request.param


@pytest.fixture
def mark() -> dict[str, str]:
    """By this every process that a test starts is found, wherever it hides."""
    return new_mark()


@pytest.fixture
async def start(tmp_path: Path, mark: dict[str, str]) -> AsyncIterator[Start]:
    """Start a program, or Python source; afterwards nothing of it runs and no file descriptor is left open."""
    before = open_pipes()
    started: list[AgentProcess] = []

    async def start_program(*argv: str, python: str | None = None, **options: Any) -> AgentProcess:
        environment = clean_environment(options.pop("environment", {}) | mark)
        line = [sys.executable, "-I", "-S", "-c", python, *argv] if python else argv
        process = await AgentProcess.start(line, cwd=str(tmp_path), environment=environment, **options)
        started.append(process)
        return process

    yield start_program
    for process in started:
        assert await process.end(0), f"{process.pid} could not be ended"
    await eventually(lambda: not marked(mark), what="the end of every process of the test")
    assert open_pipes() <= before, "file descriptors were left open"


def open_pipes() -> set[str]:
    """This process's ends of pipes; a loop's own sockets are not counted, uvloop opens some late."""
    found: set[str] = set()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that reads the directory
            found.add(f"{entry.name} {entry.readlink()}")
    return {entry for entry in found if "pipe:" in entry}

"""The process table, looked at from outside: who is alive, and who was started on whose behalf."""

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Answer = TypeVar("Answer")
MARK = "PROCESS_MARK"
LOOK_AGAIN_S = 0.01


def new_mark() -> dict[str, str]:
    """An addition to a program's environment by which `marked` finds it and all that it starts."""
    return {MARK: secrets.token_hex(8)}


def alive(pid: int) -> bool:
    """Whether there is such a process; one that has ended and was not reaped yet (a zombie) counts as gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def marked(mark: dict[str, str]) -> set[int]:
    """The living processes that have the mark in the environment that they were started with."""
    entry = f"{MARK}={mark[MARK]}".encode()
    found: set[int] = set()
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            environment = (directory / "environ").read_bytes()
        except OSError:
            continue  # gone, or another user's
        if entry in environment.split(b"\0") and alive(int(directory.name)):
            found.add(int(directory.name))
    return found


async def eventually(question: Callable[[], Answer], within_s: float = 5, what: str = "") -> Answer:
    """Ask until the answer is true, and return it.

    Raises:
        AssertionError: It did not become true in time.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while not (answer := question()):
        if loop.time() > deadline:
            raise AssertionError(f"not within {within_s:g} s: {what or question}")
        await asyncio.sleep(LOOK_AGAIN_S)
    return answer

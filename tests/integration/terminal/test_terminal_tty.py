"""The command on a pseudo-terminal: what it leaves behind, whatever ends it, and where it can't draw."""

import re
import signal
import sys
import time
from typing import Any, Self

import pexpect
import pyte
import pytest

from antiphon.client import Client
from clientlab.running import Installation

LEFT = {
    "alternate screen": b"\x1b[?1049l",
    "cursor": b"\x1b[?25h",
    "mouse": b"\x1b[?1000l",
    "bracketed paste": b"\x1b[?2004l",
}
COLOUR = re.compile(rb"\x1b\[[0-9;]*(?:3[0-7]|4[0-7]|38;[25]|48;[25])[0-9;]*m")


class Tty:
    """A command on a terminal of 100 by 30."""

    def __init__(self, host: Installation, *args: str, command: str = "", **environment: str) -> None:
        settings: Any = host.environment | {"TERM": "xterm-256color"} | environment
        settings.pop("COLUMNS")
        line = [command, *args] if command else [host.command, "--data-dir", str(host.data), *args]
        self.child = pexpect.spawn(line[0], line[1:], env=settings, dimensions=(30, 100), timeout=30)
        self.screen = pyte.Screen(100, 30)
        self._stream = pyte.ByteStream(self.screen)
        self.log = b""

    def shows(self, words: str, seconds: float = 30) -> None:
        """Wait until these words stand on the screen."""
        deadline = time.monotonic() + seconds
        while words not in (text := self.text):
            assert time.monotonic() < deadline, f"no {words!r} on the screen:\n{text}"
            assert self._read(), f"the command ended:\n{text}"

    @property
    def text(self) -> str:
        """What stands on the screen. The second cell of a wide character is empty."""
        rows = (self.screen.buffer[row] for row in range(self.screen.lines))
        return "\n".join("".join(row[column].data for column in range(self.screen.columns)) for row in rows)

    def ended(self) -> int | None:
        """Wait for the end; the exit code."""
        deadline = time.monotonic() + 30
        while self._read():
            assert time.monotonic() < deadline, "the command does not end"
        self.child.close()
        return self.child.exitstatus

    def _read(self) -> bool:
        try:
            data = self.child.read_nonblocking(65536, 0.2)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.log += data
        self._stream.feed(data)
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.close(force=True)


@pytest.fixture
def demo(host: Installation, client: Client) -> str:
    """A session in which something was said that means something to terminals."""
    client.session_start("echo", "demo", cwd=str(host.work), if_exists="return")
    client.send("demo", "hi \x1b]8;;http://evil\x07there\x1b[2J \x9b31m 漢字 😀")
    return "demo"


@pytest.mark.parametrize(("how", "code"), [(b"\x03", 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_terminal_is_left_as_it_was_found(host: Installation, demo: str, how: bytes | int, code: int) -> None:
    with Tty(host, "session", "attach", demo) as tty:
        tty.shows("echo: hi")
        tty.shows("漢字")
        if isinstance(how, bytes):
            tty.child.send(how)
        else:
            tty.child.kill(how)
        assert tty.ended() == code
        assert [name for name, sequence in LEFT.items() if sequence not in tty.log[-2000:]] == []
        assert b"\x1b]8;" not in tty.log
        assert b"\x1b[2J there" not in tty.log
        assert "\x9b".encode() not in tty.log


def test_a_paste_of_several_lines_and_a_new_size_are_taken(host: Installation, client: Client, demo: str) -> None:
    with Tty(host, "session", "attach", demo) as tty:
        tty.shows("echo: hi")
        tty.child.send("\x1b[200~eins 漢字\rzwei 😀\x1b[201~".encode())
        tty.shows("zwei")
        tty.child.setwinsize(40, 120)
        tty.screen.resize(40, 120)
        tty.child.send(b"\r")
        tty.shows("echo: eins")
        tty.child.send(b"\x11")
        assert tty.ended() == 0
    texts = [event.data["text"] for event in client.journal(demo) if event.type == "message.accepted"]
    assert texts[-1] == "eins 漢字\nzwei 😀"


BROKEN = """
import asyncio
from antiphon.client import AsyncClient
from antiphon.terminal import app, reading, story

def broken(self, event):
    raise RuntimeError("broken on purpose")

story.Story.take = broken

async def main():
    return await app.show(await AsyncClient.local({data!r}, start=False, pace=reading.PACE), ref={ref!r})

raise SystemExit(asyncio.run(main()))
"""


def test_a_view_that_breaks_leaves_the_terminal_as_it_was_found_and_says_why(host: Installation, demo: str) -> None:
    program = host.work / "broken.py"
    program.write_text(BROKEN.format(data=str(host.data), ref=demo))
    with Tty(host, str(program), command=sys.executable) as tty:
        assert tty.ended() == 1
        assert b"\x1b[?1049h" in tty.log, "nothing was drawn, so that nothing was tried"
        behind = tty.log[tty.log.rindex(LEFT["alternate screen"]) :]
        assert [name for name, sequence in LEFT.items() if sequence not in tty.log] == []
        assert b"broken on purpose" in behind


def test_no_color_draws_without_colour(host: Installation, demo: str) -> None:
    with Tty(host, "board", NO_COLOR="1", COLORTERM="truecolor") as tty:
        tty.shows(demo)
        tty.child.send(b"q")
        assert tty.ended() == 0
        greys = [each for each in COLOUR.findall(tty.log) if not _is_grey(each)]
    assert greys == []


def _is_grey(sequence: bytes) -> bool:
    """Whether a colour has as much red as green as blue."""
    parts = sequence[2:-1].split(b";")
    triples = [parts[place + 2 : place + 5] for place, part in enumerate(parts) if part in (b"38", b"48")]
    return bool(triples) and all(len(set(triple)) == 1 for triple in triples)


def test_where_nothing_can_be_drawn_it_says_what_to_do(host: Installation, demo: str) -> None:
    with Tty(host, "session", "attach", demo, TERM="dumb") as tty:
        assert tty.ended() == 2
        assert b"antiphon session watch demo" in tty.log
    piped = host.run("board")
    assert (piped.code, piped.out) == (2, "")
    assert "antiphon session list" in piped.err
    assert host.run("session", "attach", demo, "--json").code == 2


def test_a_session_that_is_not_there_is_refused_before_anything_is_drawn(host: Installation) -> None:
    with Tty(host, "session", "attach", "nowhere") as tty:
        assert tty.ended() == 4
        assert b"\x1b[?1049h" not in tty.log

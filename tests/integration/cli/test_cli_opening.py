"""`antiphon open`: a link that signs a browser in, handed to the browser or printed."""

import re
from pathlib import Path
from uuid import uuid4

from clientlab.running import Installation

LINK = re.compile(r"http://127\.0\.0\.1:\d+/#sign-in=[\w-]{43}(/ses_[0-9a-f]+)?\n")


def browser(folder: Path) -> tuple[str, Path]:
    """A browser that writes down what it is given: what `$BROWSER` is then, and where it writes."""
    program, seen = folder / "browser", folder / "seen"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$1" > {seen}\n')
    program.chmod(0o755)
    return f"{program} %s", seen


def test_the_link_is_printed_when_asked_for_and_leads_to_a_session(host: Installation) -> None:
    key = f"open:{uuid4()}"
    session_id = host.run("session", "start", key, "--agent", "echo", "--json").json["id"]
    plain, led = host.run("open", "--print"), host.run("open", key, "--print")
    assert (plain.code, led.code) == (0, 0)
    assert LINK.fullmatch(plain.out)
    assert "within a minute" in plain.err
    assert LINK.fullmatch(led.out)
    assert led.out.endswith(f"/{session_id}\n")
    assert plain.out != host.run("open", "--print").out
    told = host.run("open", "--json").json
    assert LINK.fullmatch(f"{told['url']}\n")
    assert told["expires_at"].endswith("Z")


def test_the_link_goes_to_the_browser_and_not_to_the_terminal(host: Installation, tmp_path: Path) -> None:
    command, seen = browser(tmp_path)
    done = host.run("open", env={"BROWSER": command})
    assert (done.code, done.out) == (0, "")
    assert LINK.fullmatch(seen.read_text())


def test_without_a_browser_the_link_is_printed(host: Installation) -> None:
    done = host.run("open", env={"BROWSER": "", "DISPLAY": "", "WAYLAND_DISPLAY": ""})
    assert done.code == 0
    assert LINK.fullmatch(done.out)


def test_a_session_that_is_not_there_is_not_opened(host: Installation) -> None:
    done = host.run("open", "nobody-has-this-key", "--print")
    assert (done.code, done.out) == (4, "")

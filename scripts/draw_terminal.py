"""Draw the pictures of the terminal's views in docs/images, from a real host with agents that are there everywhere.

python scripts/draw_terminal.py
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from antiphon.client import AsyncClient, Client
from antiphon.terminal.app import Terminal
from antiphon.terminal.reading import PACE
from antiphon.terminal.seen import Seen

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
SIZE = (100, 32)
PATIENCE_S = 60
ANSWER = """\
The tests fail since **Tuesday**, and only on the second run:

- `test_import` leaves its directory behind;
- the next run finds it and takes it for an *unfinished* import.

```python
with tempfile.TemporaryDirectory() as place:
    import_into(place)
```
"""
SESSIONS = (
    ("telegram:42", "Holiday plans", {"team": "home"}, ["Where shall we go?", "And by train?"]),
    ("review", "Review of the importer", {"team": "core"}, ["Why do the tests of the importer fail?"]),
    ("deploy", "Deployment", {"team": "core"}, ["[[ask Run `make deploy` on production?]] Deployed."]),
    ("nightly", "Nightly tests", {"team": "core"}, ["[[fail The disk is full]]"]),
    (
        "docs",
        "Words of the manual",
        {"team": "docs"},
        ["[[stream 12 every 1]] [[hold never]]", "Then the index", "Last"],
    ),
)


@contextmanager
def served(root: Path) -> Generator[Client]:
    """A host of its own, and a client of it."""
    data = root / "data"
    data.mkdir(mode=0o700)
    command = json.dumps([sys.executable, "-c", f"print({ANSWER!r}, end='')"])
    (data / "antiphon.toml").write_text(f'[agents.reviewer]\nadapter = "command"\ncommand = {command}\n')
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANTIPHON")}
    command = [sys.executable, "-m", "antiphon.cli", "serve", "--data-dir", str(data), "--port", "0"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for((data / "ready.json").exists)
            ready = json.loads((data / "ready.json").read_text())
            with Client(ready["url"], ready["token"]) as client:
                yield client
        finally:
            process.terminate()
            process.wait(30)


def wait_for(question: Callable[[], object]) -> None:
    """Ask until the answer is truthy."""
    until = monotonic() + PATIENCE_S
    while not question():
        if monotonic() > until:
            sys.exit("What was waited for did not happen.")


def fill(client: Client, root: Path) -> None:
    """Sessions in which something goes on."""
    for key, title, labels, texts in SESSIONS:
        client.session_start("reviewer" if key == "review" else "echo", key, cwd=str(root), title=title, labels=labels)
        for text in texts:
            client.send(key, text, wait_s=0)
    wanted = {"telegram:42": "idle", "review": "idle", "deploy": "asking", "nightly": "errored", "docs": "running"}
    wait_for(lambda: {each.key: each.status for each in client.sessions()} == wanted)


async def draw(root: Path) -> None:
    """Both views, as they stand once everything is told."""
    async with await AsyncClient.local(root / "data", start=False, pace=PACE) as client:
        marks = Seen("pictures", root / "seen")
        marks.keep()  # so that it is not the first look, and what was answered is unread
        for name, ref, words in (("board", None, "Holiday plans"), ("session", "review", "import_into")):
            app = Terminal(client, Seen("pictures", root / "seen"), ref=ref)
            async with app.run_test(size=SIZE) as pilot, asyncio.timeout(PATIENCE_S):
                while words not in app.export_screenshot().replace("&#160;", " "):
                    await pilot.pause(0.1)
                await pilot.pause(1)
                picture = app.export_screenshot(title=f"antiphon {name}")
                (IMAGES / f"terminal-{name}.svg").write_text(picture + "\n", encoding="utf-8")


def main() -> None:
    """Draw them."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="antiphon-pictures-") as name, served(Path(name)) as client:
        fill(client, Path(name))
        asyncio.run(draw(Path(name)))


if __name__ == "__main__":
    main()

"""Make the pictures of the page for the documentation: a real host, real conversations, a real browser.

    .venv/bin/python scripts/make_pictures.py

It needs Chromium. The conversations that are over are imported; those that go on are held by agents that wait.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
ANTIPHON = ROOT / ".venv" / "bin" / "antiphon"
WAIT_S = 30.0

SPEAKING = """\
The three places that read the clock are

1. `tokens.py`, to see whether a token has expired,
2. `limits.py`, for the window of the rate limit,
3. `audit.py`, which stamps what it writes.

The first two can take a `Clock`; I'll begin with"""

ANSWER = """\
The tests fail because `parse_date` takes the **local** zone where the format names none:

```python
def parse_date(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)  # was: .astimezone()
```

| test | before | now |
|---|---|---|
| `test_midnight` | fails east of UTC | passes |
| `test_round_trip` | passes | passes |

All 214 tests pass. I left the public signature as it was.
"""


def events() -> Iterator[dict[str, Any]]:
    """A conversation that is over: a question, tools, an approval, an answer."""
    message, turn, asked = f"msg_{1:032x}", f"turn_{1:032x}", f"perm_{1:032x}"
    yield {
        "type": "session.created",
        "data": {"agent": "reviewer", "title": "Flaky date tests", "labels": {"repo": "atlas"}},
    }
    text = "The date tests fail on my machine, but not in CI. What is it?"
    accepted = {"text": text, "when_busy": "queue", "place": 0}
    yield {"type": "message.accepted", "message_id": message, "data": accepted}
    yield {"type": "turn.started", "turn_id": turn, "data": {"message_ids": [message]}}
    for number, (name, given) in enumerate(
        (("Read", {"file_path": "src/atlas/dates.py"}), ("Bash", {"command": "pytest -q tests/test_dates.py"}))
    ):
        yield {
            "type": "turn.tool_started",
            "turn_id": turn,
            "data": {"tool_id": f"t{number}", "name": name, "input": given},
        }
        yield {
            "type": "turn.tool_ended",
            "turn_id": turn,
            "data": {"tool_id": f"t{number}", "outcome": "completed", "output": "…"},
        }
    question = {"permission_id": asked, "question": "Edit src/atlas/dates.py", "tool": "Edit"}
    yield {"type": "permission.requested", "turn_id": turn, "data": question}
    yield {"type": "permission.answered", "turn_id": turn, "data": {"permission_id": asked, "decision": "allow"}}
    yield {"type": "turn.text", "turn_id": turn, "data": {"text": ANSWER}}
    usage = {"input_tokens": 18_204, "output_tokens": 1_377, "cost_usd": 0.08}
    yield {"type": "turn.ended", "turn_id": turn, "data": {"state": "completed", "usage": usage}}
    yield {"type": "message.ended", "message_id": message, "turn_id": turn, "data": {"state": "answered"}}


def conversation() -> dict[str, Any]:
    """That conversation as an export, its steps some seconds apart."""
    at = int(time.time() * 1000) - 1_500_000
    place = {"session_id": f"ses_{1:032x}", "generation": 1}
    entries = [
        {**place, **event, "sequence": number, "at": at + number * 3400} for number, event in enumerate(events(), 1)
    ]
    return {"antiphon_export": 1, "session": {"key": "atlas:dates"}, "entries": entries}


class Stage:
    """A host on a directory of its own."""

    def __init__(self, home: Path) -> None:
        self.data = home / "data"
        self.data.mkdir()
        speech = home / "speech.md"
        speech.write_text(SPEAKING)
        command = json.dumps(["sh", "-c", f"cat > /dev/null; cat {speech}; sleep 600"])
        (self.data / "antiphon.toml").write_text(f'[agents.reviewer]\nadapter = "command"\ncommand = {command}\n')
        self.ready: dict[str, Any] = {}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One request to the host; its answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {self.ready['token']}", "content-type": "application/json"}
        request = urllib.request.Request(f"{self.ready['url']}/v1{path}", data, headers, method=method)  # noqa: S310
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:  # noqa: S310
            return json.load(answer)

    def session(self, agent: str, title: str, *texts: str, **labels: str) -> str:
        """A session in which something was said; its id."""
        made = self.ask("POST", "/sessions", {"agent": agent, "title": title, "labels": labels})["id"]
        for text in texts:
            self.ask("POST", f"/sessions/{made}/messages", {"text": text})
        return made

    def link(self, *args: str) -> str:
        """A sign-in link."""
        command = [str(ANTIPHON), "open", "--print", *args, "--data-dir", str(self.data)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@contextmanager
def serving() -> Generator[Stage]:
    """A host that serves, ended and forgotten in the end."""
    with tempfile.TemporaryDirectory() as home:
        stage = Stage(Path(home))
        command = [str(ANTIPHON), "serve", "--data-dir", str(stage.data), "--log-level", "error"]
        with subprocess.Popen(command) as host:
            try:
                ready, deadline = stage.data / "ready.json", time.monotonic() + WAIT_S
                while not ready.exists():
                    if time.monotonic() > deadline or host.poll() is not None:
                        sys.exit("The host does not serve.")
                    time.sleep(0.05)
                stage.ready = json.loads(ready.read_text())
                yield stage
            finally:
                host.terminate()


def visit(browser: Browser, stage: Stage, *, scheme: Any = "light", width: int = 1280, height: int = 800) -> Page:
    """A page of a signed-in browser."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height}, locale="en-GB")
    page = context.new_page()
    page.goto(stage.link())
    page.wait_for_selector(".row")
    return page


def keep(page: Page, name: str) -> None:
    """Keep what is to be seen, once it has settled."""
    page.wait_for_timeout(800)
    page.screenshot(path=IMAGES / f"{name}.png")


def main() -> None:
    """Make them all."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("The pictures need Chromium.")
    with serving() as stage, sync_playwright() as playwright:
        stage.ask("POST", "/sessions/import", conversation())
        for title, labels in (
            ("Holiday plans", {}),
            ("Release notes 2.4", {"repo": "atlas"}),
            ("nightly backup", {"team": "ops"}),
        ):
            stage.session("echo", title, "Thanks, that is all.", **labels)
        stage.session(
            "echo", "Import of old invoices", "[[fail The model is overloaded; try again later.]]", team="ops"
        )
        stage.session("echo", "Deploy to production", "[[ask Run `make deploy ENV=production`?]]", team="ops")
        running = stage.session(
            "reviewer",
            "One clock for everything",
            "Which code reads the machine's clock itself? Let it take a Clock instead.",
            "Then add a test that fails when somebody does it again.",
            "And tell me what it cost.",
            repo="atlas",
        )
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = visit(browser, stage)
        keep(page, "page-board")
        page.click(f'[data-session="{running}"]')
        page.wait_for_selector(".queue")
        keep(page, "page-session")
        page = visit(browser, stage, scheme="dark")
        page.click("text=Flaky date tests")
        page.wait_for_selector(".turn-foot")
        page.get_by_title("Timeline of this turn").click()
        keep(page, "page-session-dark")
        page = visit(browser, stage, width=390, height=780)
        keep(page, "page-phone")
        browser.close()


if __name__ == "__main__":
    main()

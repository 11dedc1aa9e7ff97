"""axe-core finds nothing serious on either view, light or dark, narrow or wide."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from e2e.driver import Host
from e2e.visiting import Visit

AXE = Path(__file__).parents[3] / "web" / "node_modules" / "axe-core" / "axe.min.js"
ANSWER = """## A heading

Some **bold** words, `code` and [a link](https://example.org).

```python
def f(x):  # a comment
    return x + 1, "text"
```

| a | b |
|---|---|
| 1 | 2 |

- [x] done
- [ ] to do

> quoted
"""


def serious(page: Page) -> list[str]:
    """What axe-core finds that is serious or worse, and where."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{violation['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:200]}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


@pytest.fixture
def scenes(host: Host) -> str:
    """Sessions in every state; the id of one where something of everything is shown."""
    for title, text in (("asks", "[[ask May I?]]"), ("fails", "[[fail no paper]]"), ("runs", "[[hold gate]]")):
        host.post(host.session(title=title, labels={"team": "web"}), text)
    full = host.session(title="everything", labels={"team": "ops"})
    host.ended(host.post(full, f"[[tool Bash]] {ANSWER}").json["id"], 30)
    host.ended(host.post(full, "[[fail no paper]]").json["id"], 30)
    host.post(full, "[[ask May I?]] done", sender="ana")
    host.post(full, "waits", sender="ben")
    host.api("POST", f"/sessions/{full}/queue/pause")
    return full


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(host: Host, scenes: str, visits: Callable[..., Visit], scheme: str) -> None:
    wide = visits(host, color_scheme=scheme, viewport={"width": 1280, "height": 900})
    board = wide.board()
    expect(board.locator(".row")).to_have_count(4)
    assert serious(board) == []
    session = wide.session(scenes)
    expect(session.locator(".approval")).to_be_visible()
    expect(session.locator(".queue li")).to_have_count(1)
    expect(session.locator(".from")).to_have_count(2)
    expect(session.locator(".session-meta .paused")).to_be_visible()
    session.get_by_title("Timeline of this turn").first.click()
    session.locator(".tool summary").click()
    assert serious(session) == []
    session.get_by_role("button", name="Edit").click()
    session.get_by_label("What can be done with this session").click()
    assert serious(session) == []
    session.get_by_role("button", name="Delete").click()
    assert serious(session) == []


def test_axe_finds_nothing_serious_on_a_phone_and_at_the_door(
    host: Host, scenes: str, visits: Callable[..., Visit]
) -> None:
    phone = visits(host, viewport={"width": 390, "height": 800}, has_touch=True)
    phone.tolerated = ("401",)
    door = phone.context.new_page()
    door.goto(host.ready["url"])
    expect(door.get_by_label("Sign-in link")).to_be_visible()
    assert serious(door) == []
    session = phone.session(scenes)
    expect(session.locator(".approval")).to_be_visible()
    assert serious(session) == []
    assert session.evaluate("document.documentElement.scrollWidth") <= 390
    session.get_by_label("All sessions").click()
    expect(session.locator(".row")).to_have_count(4)
    assert serious(session) == []
    session.get_by_role("button", name="New session").click()
    assert serious(session) == []

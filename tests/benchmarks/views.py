"""How long a long conversation takes to open in the views, against a short one in the same program."""

import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import BrowserContext

import browser
from antiphon.client import AsyncClient, Client
from antiphon.terminal.app import Terminal
from antiphon.terminal.reading import PACE
from antiphon.terminal.seen import Seen
from antiphon.terminal.session import SessionScreen
from antiphon.terminal.transcript import Answer
from benchmarks.door import served_host
from benchmarks.figures import Figure
from e2e.long_session import export

LONG, SHORT = 2_000, 10
BOUND = 1.3
ROUNDS, QUICK_ROUNDS = 11, 7
PATIENCE_S = 60
SHOWN_AT = """
new MutationObserver(() => {
  if (window.shownAt === undefined && [...document.querySelectorAll(".turn")].at(-1)?.textContent.includes("LAST"))
    requestAnimationFrame(() => { window.shownAt = performance.now(); });
}).observe(document, { childList: true, subtree: true, characterData: true });
"""
"""Notes when the last answer is about to be painted, in milliseconds from the navigation on."""


def opening(root: Path, *, quick: bool) -> list[Figure]:
    """The page and the terminal, each opening a session of 2,000 turns and one of ten in turns."""
    rounds = QUICK_ROUNDS if quick else ROUNDS
    figures: list[Figure] = []
    with served_host(root / "host") as (ready, _pid, _took), Client(ready["url"], ready["token"]) as client:
        ids = {turns: client.session_import(export(turns)).id for turns in (LONG, SHORT)}
        if browser.program() is None:
            print("the page is not measured: there is no Chromium here", file=sys.stderr)
        else:
            figures.append(_page(client, ready["url"].rstrip("/"), ids, rounds))
        figures.append(asyncio.run(_terminal(ready, root, ids, rounds)))
    return figures


def _page(client: Client, host: str, ids: dict[int, str], rounds: int) -> Figure:
    with browser.running() as chromium:
        context = chromium.new_context(viewport={"width": 1280, "height": 800})
        first = context.new_page()
        first.goto(host + client.sign_in_link().path)
        first.wait_for_selector(".groups")
        first.close()
        took = _alternately(lambda turns: _page_shown_ms(context, f"{host}/#/sessions/{ids[turns]}", turns), rounds)
    return _figure("page_2000_turns", "the page", took)


def _page_shown_ms(context: BrowserContext, url: str, turns: int) -> float:
    page = context.new_page()
    page.add_init_script(SHOWN_AT.replace("LAST", f"Answer {turns}"))
    page.goto(url)
    deadline = time.monotonic() + PATIENCE_S
    while (shown_at := page.evaluate("window.shownAt")) is None:
        assert time.monotonic() < deadline, "the last answer was not shown"
        page.wait_for_timeout(20)
    page.close()
    return float(shown_at)


async def _terminal(ready: dict[str, str], root: Path, ids: dict[int, str], rounds: int) -> Figure:
    times: dict[int, list[float]] = {LONG: [], SHORT: []}
    async with AsyncClient(ready["url"], ready["token"], pace=PACE) as client:
        for _ in range(rounds + 1):
            for turns, taken in times.items():
                taken.append(await _terminal_shown_ms(client, Seen("epoch", root / "seen"), ids[turns], turns))
    return _figure("terminal_2000_turns", "the terminal", {turns: taken[1:] for turns, taken in times.items()})


async def _terminal_shown_ms(client: AsyncClient, seen: Seen, session_id: str, turns: int) -> float:
    app = Terminal(client, seen, ref=session_id)
    began = time.perf_counter()
    async with app.run_test(size=(110, 40)), asyncio.timeout(PATIENCE_S):
        while not _is_shown(app, turns):  # noqa: ASYNC110  the screen is looked at, as a person would
            await asyncio.sleep(0.002)
        return 1000 * (time.perf_counter() - began)


def _is_shown(app: Terminal, turns: int) -> bool:
    """Whether the last answer is laid out, at a place that is in sight."""
    if not isinstance(app.screen, SessionScreen):
        return False
    answers = list(app.screen.query(Answer))
    return bool(answers) and f"**{turns}**" in answers[-1].source and bool(answers[-1].region.height)


def _alternately(measure: Callable[[int], float], rounds: int) -> dict[int, list[float]]:
    """Some measurements of each, after one of each that warms up."""
    times: dict[int, list[float]] = {LONG: [], SHORT: []}
    for _ in range(rounds + 1):
        for turns, taken in times.items():
            taken.append(measure(turns))
    return {turns: taken[1:] for turns, taken in times.items()}


def _figure(name: str, what: str, took_ms: dict[int, list[float]]) -> Figure:
    value, floor = (statistics.median(took_ms[turns]) for turns in (LONG, SHORT))
    told = f"a transcript of {LONG:,} turns opened by {what}, against one of {SHORT} turns"
    return Figure(name, told, value, floor, BOUND, "lower", "ms")

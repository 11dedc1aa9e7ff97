"""A long conversation costs no more than a short one: what is not looked at is neither asked for nor drawn."""

import time
from typing import Any

from playwright.sync_api import Page, expect

from e2e.driver import Host
from e2e.visiting import Visit

LONG, SHORT = 2000, 10


def conversation(turns: int) -> dict[str, Any]:
    """An export of a session with so many turns, as a host would have made it."""
    at, entries, session_id = 1_780_000_000_000, list[dict[str, Any]](), f"ses_{0:032x}"

    def add(kind: str, **fields: Any) -> None:
        place = {"session_id": session_id, "sequence": len(entries) + 1, "generation": 1}
        entries.append(place | {"type": kind, "at": at + len(entries)} | fields)

    add("session.created", data={"agent": "echo", "title": f"{turns} turns"})
    for number in range(1, turns + 1):
        message, turn = f"msg_{number:032x}", f"turn_{number:032x}"
        add(
            "message.accepted",
            message_id=message,
            data={"text": f"question {number}", "when_busy": "queue", "place": 0},
        )
        add("turn.started", turn_id=turn, data={"message_ids": [message]})
        add("turn.text", turn_id=turn, data={"text": f"Answer **{number}**\n\n- with a list\n- of `two`\n"})
        add("turn.ended", turn_id=turn, data={"state": "completed"})
        add("message.ended", message_id=message, turn_id=turn, data={"state": "answered"})
    return {"antiphon_export": 1, "session": {"key": None}, "entries": entries}


def opened(visit: Visit, session_id: str, turns: int) -> tuple[Page, float, int, int]:
    """Open a session from the board: the page, the seconds that it took, its requests and its elements."""
    page = visit.board()
    expect(page.locator(".row")).to_have_count(2)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    began = time.monotonic()
    page.locator(f'[data-session="{session_id}"]').click()
    expect(page.locator(".turn").last).to_contain_text(f"Answer {turns}")
    took = time.monotonic() - began
    page.wait_for_timeout(500)
    return page, took, len(asked), page.evaluate("document.querySelectorAll('*').length")


def test_two_thousand_turns_open_like_ten_and_all_can_be_read(host: Host, visit: Visit) -> None:
    long, short = (host.api("POST", "/sessions/import", conversation(turns)).json["id"] for turns in (LONG, SHORT))
    _, short_s, short_requests, short_elements = opened(visit, short, SHORT)
    page, long_s, long_requests, long_elements = opened(visit, long, LONG)
    assert long_requests <= short_requests + 3
    assert long_elements < 8000, (long_elements, short_elements)
    assert long_s < 3 * short_s + 2, (long_s, short_s)

    newest = page.locator(".turn").count()
    page.locator(".scroll").evaluate("view => { view.scrollTop = 0; }")
    expect(page.locator(".turn").nth(newest)).to_be_attached()
    assert page.locator(".scroll").evaluate("view => view.scrollTop") > 0, "the place is kept when older turns come"
    page.get_by_role("button", name="Newest").click()
    expect(page.locator(".turn").last).to_be_in_viewport()
    host.ended(host.post(long, "and now?").json["id"], 30)
    expect(page.locator(".turn").last).to_contain_text("echo: and now?")
    assert page.locator(".turn").count() <= 260, "what was read long ago is let go of"


def test_a_very_long_answer_is_shown_in_part_and_whole_when_asked(host: Host, visit: Visit) -> None:
    session_id = host.session()
    message = host.post(session_id, "[[bytes 3000000]] end").json
    host.ended(message["id"], 60)
    page = visit.session(session_id)
    expect(page.locator(".turn-completed")).to_have_count(1)
    assert page.evaluate("document.body.innerText.length") < 100_000
    page.get_by_role("button", name="Show all of it").click()
    expect(page.locator(".answer .plain-text")).to_contain_text("echo: end")


def test_a_very_long_message_comes_when_it_is_asked_for(host: Host, visit: Visit) -> None:
    session_id = host.session()
    host.ended(host.post(session_id, "start " + "x" * 500_000 + " finish").json["id"], 60)
    page = visit.session(session_id)
    page.get_by_role("button", name="Show this message").click()
    page.locator(".bubble").get_by_role("button", name="Show all of it").click()
    expect(page.locator(".bubble")).to_contain_text("finish")

"""A long conversation costs no more than a short one: what is not looked at is neither asked for nor drawn."""

import re

from playwright.sync_api import Page, expect

from e2e.driver import Host
from e2e.long_session import export
from e2e.visiting import Visit

LONG, SHORT = 2000, 10


def opened(visit: Visit, session_id: str, turns: int) -> tuple[Page, list[str], int]:
    """Open a session from the board: the page, what it asked of the host, and how many elements it has."""
    page = visit.board()
    expect(page.locator(".row")).to_have_count(2)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with page.expect_request("**/events?*after=*"), page.expect_response("**/queue"):
        page.locator(f'[data-session="{session_id}"]').click()
    expect(page.locator(".turn").last).to_contain_text(f"Answer {turns}")
    return page, asked, page.evaluate("document.querySelectorAll('*').length")


def what(url: str) -> str:
    """What a request is for, whichever session it is about."""
    return re.sub(r"ses_\w+", "SESSION", url.partition("?")[0])


def test_two_thousand_turns_open_like_ten_and_all_can_be_read(host: Host, visit: Visit) -> None:
    long, short = (host.api("POST", "/sessions/import", export(turns)).json["id"] for turns in (LONG, SHORT))
    _, short_requests, short_elements = opened(visit, short, SHORT)
    page, long_requests, long_elements = opened(visit, long, LONG)
    # How it stands is asked again a moment after the stream has begun, so that may be counted once or twice.
    assert set(map(what, long_requests)) == set(map(what, short_requests))
    assert sum("/events" in url for url in long_requests) == 2, "one page of events, and the stream"
    assert long_elements < 4 * short_elements, (long_elements, short_elements)

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

"""The board: who needs somebody comes first, live; it can be searched, filtered, and told what was read."""

import json
import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from e2e.driver import Host, until
from e2e.visiting import Visit


def row(page: Page, session_id: str) -> str:
    """Where a session stands on the board."""
    return f'[data-session="{session_id}"]'


def group_of(page: Page, session_id: str) -> str:
    """The heading under which a session stands; empty where it does not stand anywhere."""
    found = page.locator("section.group", has=page.locator(row(page, session_id))).locator("h2")
    return re.sub(r"\s*\d+$", "", found.inner_text()) if found.count() else ""


def stands(page: Page, session_id: str, group: str) -> None:
    """Wait until a session stands in a group."""
    expect(page.locator(f"section.group:has(h2:has-text('{group}')) {row(page, session_id)}")).to_be_visible()


def test_sessions_stand_by_who_needs_somebody_and_move_as_things_happen(host: Host, visit: Visit) -> None:
    visit.tolerated = ("404",)  # the board may have asked once more while a session was deleted
    quiet = host.session(title="quiet")
    asking, failing, running = (host.session(title=name) for name in ("asking", "failing", "running"))
    page = visit.board()
    stands(page, quiet, "Quiet")
    host.post(asking, "[[ask May I?]] thanks")
    host.post(failing, "[[fail no more paper]]")
    host.post(running, "[[hold gate]] done")
    stands(page, asking, "Needs you")
    stands(page, failing, "Failed")
    stands(page, running, "Running")
    headings = page.locator("section.group h2").all_inner_texts()
    assert [re.sub(r"\s*\d+$", "", each) for each in headings] == ["Needs you", "Failed", "Running", "Quiet"]
    assert page.title() == "(1) antiphon"
    fresh = host.session(title="fresh")
    stands(page, fresh, "Quiet")
    host.release()
    stands(page, running, "Quiet")
    page.get_by_role("button", name="Allow").click()
    stands(page, asking, "Quiet")
    host.api("DELETE", f"/sessions/{fresh}")
    expect(page.locator(row(page, fresh))).to_have_count(0)


def test_a_session_that_fell_silent_stands_among_the_stalled(host: Host, visit: Visit) -> None:
    silent = host.session(title="silent", settings={"stall_after_s": 1})
    host.post(silent, "[[hold gate]] well")
    until(lambda: host.api("GET", f"/sessions/{silent}").json["status"] == "stalled", "a stalled session", 30)
    page = visit.board()
    stands(page, silent, "Stalled")


def test_the_board_is_searched_and_filtered_by_label_and_agent(host: Host, visit: Visit) -> None:
    web, ops = host.session(key="a/web", labels={"team": "web"}), host.session(title="Nightly", labels={"team": "ops"})
    page = visit.board()
    page.keyboard.press("/")
    page.keyboard.type("night")
    expect(page.locator(row(page, web))).to_have_count(0)
    expect(page.locator(row(page, ops))).to_be_visible()
    page.get_by_label("Search sessions").fill("")
    page.get_by_label("Label", exact=True).select_option("team=web")
    expect(page.locator(row(page, ops))).to_have_count(0)
    expect(page.locator(row(page, web))).to_be_visible()
    page.get_by_label("Agent", exact=True).select_option("claude")
    expect(page.get_by_text("No session is like that.")).to_be_visible()
    page.get_by_role("button", name="Show all sessions").click()
    expect(page.locator(".row")).to_have_count(2)
    page.get_by_label("Agent", exact=True).select_option("echo")
    expect(page.locator(".row")).to_have_count(2)


def test_what_was_not_read_is_marked_until_somebody_looks_and_the_browser_remembers(host: Host, visit: Visit) -> None:
    one, other = host.session(title="one"), host.session(title="other")
    host.ended(host.post(one, "before anybody looked").json["id"])
    page = visit.board()
    expect(page.locator(".row")).to_have_count(2)
    assert page.get_by_label("unread").count() == 0, "what ended before this browser came is not news"
    host.ended(host.post(one, "news").json["id"])
    mark = page.locator(row(page, one)).get_by_label("unread")
    expect(mark).to_be_visible()
    page.reload()
    expect(mark).to_be_visible()
    page.locator(row(page, one)).click()
    expect(mark).to_have_count(0)
    page.locator(row(page, other)).click()
    expect(page.locator("h1")).to_have_text("other")
    page.reload()
    expect(page.locator(".row")).to_have_count(2)
    assert page.get_by_label("unread").count() == 0


def test_five_hundred_sessions_stay_smooth(host: Host, visit: Visit) -> None:
    line = host.connect()
    for number in range(500):
        body = {"agent": "echo", "title": f"session {number:03}", "labels": {"shard": str(number % 7)}}
        assert host.api("POST", "/sessions", body, connection=line).status == 201
    line.close()
    busy = [host.session(title=f"busy {number}") for number in range(4)]
    page = visit.board()
    expect(page.get_by_role("heading", name=re.compile("Quiet 504"))).to_be_visible()
    assert page.evaluate("document.querySelectorAll('*').length") < 4000
    for session_id in busy:
        host.post(session_id, "[[stream 300 every 5]] done")
    longest = page.evaluate(
        """async () => {
            // The longest that the page lets nobody in, while four sessions speak and somebody types and scrolls.
            const search = document.querySelector('input[type=search]');
            let longest = 0, before = performance.now();
            const until = before + 3000;
            while (performance.now() < until) {
                await new Promise((go) => setTimeout(go, 16));
                const now = performance.now();
                longest = Math.max(longest, now - before);
                before = now;
                document.querySelector('.groups').scrollTop += 40;
                search.value = search.value.length > 6 ? '' : search.value + 's';
                search.dispatchEvent(new InputEvent('input', {bubbles: true}));
            }
            return longest;
        }"""
    )
    assert longest < 1000, f"nobody got through for {longest:.0f} ms"
    page.get_by_label("Search sessions").fill("session 042")
    expect(page.locator(".row")).to_have_count(1)


def test_a_notification_comes_when_a_session_asks_or_ends_for_who_wants_them(
    host: Host, visits: Callable[..., Visit]
) -> None:
    visit = visits(host, permissions=["notifications"])
    visit.context.add_init_script(
        """window.told = [];
        window.Notification = class {
            static permission = 'granted';
            static requestPermission = async () => 'granted';
            constructor(title, options) { window.told.push([title, options.body]); }
        };"""
    )
    session_id = host.session(title="deploy")
    page = visit.board()
    host.ended(host.post(session_id, "unheard").json["id"])
    expect(page.locator(row(page, session_id)).get_by_label("unread")).to_be_visible()
    assert page.evaluate("window.told") == [], "nobody asked for notifications"
    switch = page.get_by_role("button", name="Notify me")
    switch.click()
    expect(switch).to_have_attribute("aria-pressed", "true")
    message = host.post(session_id, "[[ask May I?]] done").json
    until(lambda: page.evaluate("window.told.length") == 1, "the question's notification", 30)
    page.get_by_role("button", name="Deny").click()
    host.ended(message["id"])
    until(lambda: page.evaluate("window.told.length") == 2, "the end's notification", 30)
    assert page.evaluate("window.told") == [["deploy asks you", "May I?"], ["deploy has answered", ""]]
    page.reload()
    expect(page.get_by_role("button", name="Notify me")).to_have_attribute("aria-pressed", "true")
    kept = page.evaluate("JSON.stringify(localStorage)")
    assert "antiphon_" not in json.loads(kept).values(), "no secret is kept where scripts can read it"

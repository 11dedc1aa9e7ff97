"""The page follows a session: complete, in order, each piece once, whatever happens to the host."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from e2e.driver import Host, until
from e2e.visiting import Visit

LOST = ("Failed to load resource", "ERR_")
"""What a browser says when a host is gone; the page has nothing to do with it."""


def numbers(count: int) -> str:
    """What `[[stream N]]` says."""
    return " ".join(str(number) for number in range(1, count + 1))


def said(page: Page) -> str:
    """The answer of the newest turn, its spaces folded."""
    texts = page.locator(".turn").last.locator(".said, .answer > .plain-text").all_inner_texts()
    return " ".join(" ".join(texts).split())


def reply(host: Host, session_id: str) -> str:
    """What the host keeps as the answer of the newest turn, its spaces folded."""
    text = host.api("GET", f"/sessions/{session_id}/turns").json["items"][-1]["reply"] or ""
    return " ".join(text.split())


def test_two_pages_on_one_session_see_the_same(host: Host, visit: Visit, visits: Callable[..., Visit]) -> None:
    session_id = host.session(title="shared")
    one, other = visit.session(session_id), visits(host).session(session_id)
    for page, text in ((one, "from the one"), (other, "from the other")):
        page.get_by_label("Message", exact=True).fill(f"[[stream 40 every 5]] {text}")
        page.keyboard.press("Enter")
        for each in (one, other):
            expect(each.locator(".turn").last).to_contain_text(f"40 echo: {text}")
            expect(each.locator(".turn-completed")).to_have_count(1 if page is one else 2)
    assert said(one) == said(other) == reply(host, session_id)
    assert one.locator(".bubble").all_inner_texts() == other.locator(".bubble").all_inner_texts()


def test_a_page_opened_in_the_middle_of_a_turn_shows_it_from_its_start(host: Host, visit: Visit) -> None:
    session_id = host.session()
    pieces = 1500
    message = host.post(session_id, f"[[tool Read]] [[stream {pieces} every 0]] [[hold gate]] the end").json
    until(lambda: reply(host, session_id).endswith(f" {pieces}"), "all pieces", 60)
    page = visit.session(session_id)
    expect(page.locator(".said")).to_contain_text(f" {pieces}")
    assert said(page) == numbers(pieces)
    assert page.locator(".tool").inner_text().startswith("Read")
    host.release()
    host.ended(message["id"], 30)
    expect(page.locator(".turn-completed")).to_have_count(1)
    assert said(page) == reply(host, session_id)


def test_a_page_goes_on_through_the_death_of_the_host_in_the_middle_of_a_turn(quiet_host: Host, visit: Visit) -> None:
    host = quiet_host
    visit.tolerated = LOST
    session_id = host.session(title="survivor")
    page = visit.session(session_id)
    page.get_by_label("Message", exact=True).fill("[[stream 200 every 0]] [[hold gate]] lost")
    page.keyboard.press("Enter")
    expect(page.locator(".said")).to_contain_text(" 200")
    host.kill()
    expect(page.get_by_role("status").filter(has_text="Offline")).to_be_visible()
    page.get_by_label("Message", exact=True).fill("[[stream 50 every 0]] after")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("was not reached")

    host.start()
    expect(page.get_by_role("status").filter(has_text="Offline")).to_have_count(0)
    expect(page.locator(".turn-interrupted")).to_contain_text("The host went down")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".turn-completed")).to_contain_text("echo: after")
    assert page.locator(".turn-interrupted .said").inner_text().split() == numbers(200).split()
    assert said(page) == reply(host, session_id)
    assert [item["role"] for item in host.transcript(session_id)] == ["user", "assistant"] * 2
    expect(page.locator(f'[data-session="{session_id}"]')).to_contain_text("survivor")


def test_pages_opened_in_the_background_hold_no_connection(host: Host, visit: Visit) -> None:
    session_id = host.session(title="later")
    visit.board().close()
    until(lambda: host.api("GET", "/status").json["viewers"] == 0, "no stream", 30)
    visit.context.add_init_script("Object.defineProperty(document, 'visibilityState', {value: 'hidden'})")
    for _ in range(5):
        page = visit.context.new_page()
        page.goto(f"{host.ready['url']}/#/sessions/{session_id}")
        expect(page.locator("h1")).to_have_text("later")
        expect(page.locator(".row")).to_have_count(1)
    assert host.api("GET", "/status").json["viewers"] == 0


def test_a_hidden_page_lets_go_and_has_missed_nothing_when_it_is_looked_at_again(host: Host, visit: Visit) -> None:
    session_id = host.session()
    page = visit.session(session_id)
    until(lambda: host.api("GET", "/status").json["viewers"] == 2, "two streams")
    page.clock.install()
    show = "Object.defineProperty(document, 'visibilityState', {value: '%s', configurable: true});"
    tell = "document.dispatchEvent(new Event('visibilitychange'))"
    page.evaluate(show % "hidden" + tell)
    page.clock.run_for(6_000)
    until(lambda: host.api("GET", "/status").json["viewers"] == 0, "no stream", 30)
    host.ended(host.post(session_id, "[[stream 300 every 0]] unseen").json["id"], 30)
    page.evaluate(show % "visible" + tell)
    page.clock.run_for(2_000)
    page.clock.resume()
    expect(page.locator(".turn-completed")).to_contain_text("echo: unseen")
    assert said(page) == reply(host, session_id)

"""Working in a session from the page: write, queue, edit, reorder, withdraw, cancel, approve, and read what it was."""

from playwright.sync_api import Page, expect

from e2e.driver import Host, until
from e2e.visiting import Visit

FINE = "wonderful"


def write(page: Page, text: str, mode: str | None = None) -> None:
    """Send a message as a person would."""
    if mode:
        page.get_by_label("While a turn runs").select_option(mode)
    box = page.get_by_label("Message", exact=True)
    box.fill(text)
    box.press("Enter")
    expect(box).to_have_value("")


def held(host: Host, page: Page, session_id: str) -> str:
    """A turn that runs until the host's gate is open; its message's id."""
    message = host.post(session_id, "[[hold gate]] first").json
    until(lambda: host.receipt(message["id"])["state"] == "running", "a turn that runs", 30)
    expect(page.get_by_role("button", name="Cancel turn")).to_be_visible()
    return message["id"]


def waiting(page: Page) -> list[str]:
    """What waits, as it is shown."""
    return page.locator(".queued-text").all_inner_texts()


def test_what_waits_is_shown_edited_reordered_and_withdrawn(host: Host, visit: Visit) -> None:
    session_id = host.session()
    page = visit.session(session_id)
    held(host, page, session_id)
    for text in ("alpha", "beta", "gamma"):
        write(page, text)
    expect(page.locator(".queue li")).to_have_count(3)
    page.get_by_role("button", name="Move up: gamma").click()
    expect(page.locator(".queue li").nth(1)).to_contain_text("gamma")
    expect(page.get_by_role("button", name="Move up: gamma")).to_be_focused()
    page.get_by_role("button", name="Edit: beta").click()
    page.locator(".queue textarea").fill("beta, but better")
    page.locator(".queue").get_by_role("button", name="Save").click()
    expect(page.locator(".queue li").nth(2)).to_contain_text("beta, but better")
    page.get_by_role("button", name="Withdraw: alpha").click()
    expect(page.locator(".queue li")).to_have_count(2)
    assert waiting(page) == ["gamma", "beta, but better"]
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("heading", name="Paused")).to_be_visible()
    host.release()
    expect(page.locator(".turn-completed")).to_have_count(1)
    page.get_by_role("button", name="Let it go on").click()
    expect(page.locator(".turn-completed")).to_have_count(3)
    answered = page.locator(".turn .bubble .plain-text").all_inner_texts()
    assert answered == ["[[hold gate]] first", "gamma", "beta, but better"]
    expect(page.locator(".bubble.apart")).to_contain_text("alpha")


def test_who_sent_a_message_stands_beside_it_where_somebody_is_named(host: Host, visit: Visit) -> None:
    session_id = host.session()
    for text, sender in (("from the bot", "<b>ana"), ("from here", None)):
        body = {"text": text} | ({"sender": sender} if sender else {})
        host.ended(host.api("POST", f"/sessions/{session_id}/messages", body).json["id"], 30)
    page = visit.session(session_id)
    held(host, page, session_id)
    host.api("POST", f"/sessions/{session_id}/messages", {"text": "it waits", "sender": "cy"})
    bubbles = page.locator(".bubble")
    expect(bubbles).to_have_count(3)
    expect(bubbles.nth(0).get_by_role("heading", name="Message from <b>ana")).to_be_attached()
    expect(bubbles.nth(0).locator(".from")).to_have_text("from <b>ana")
    expect(page.locator(".bubble .from")).to_have_count(1)
    expect(page.locator(".queue .from")).to_have_text("from cy")


def test_a_paused_queue_is_told_in_the_head_even_when_nothing_waits(host: Host, visit: Visit) -> None:
    session_id = host.session()
    page = visit.session(session_id)
    expect(page.locator(".session-meta .paused")).to_have_count(0)
    host.api("POST", f"/sessions/{session_id}/queue/pause")
    expect(page.locator(".session-meta .paused")).to_have_text("queue paused")
    host.api("POST", f"/sessions/{session_id}/queue/continue")
    expect(page.locator(".session-meta .paused")).to_have_count(0)


def test_each_mode_does_what_it_says(host: Host, visit: Visit) -> None:
    visit.tolerated = ("409",)
    session_id = host.session()
    page = visit.session(session_id)
    held(host, page, session_id)
    write(page, "by the way", "steer")
    expect(page.locator(".turn-running .bubble")).to_have_count(2)
    page.get_by_label("While a turn runs").select_option("refuse")
    page.get_by_label("Message", exact=True).fill("only if free")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("A turn is running")
    expect(page.get_by_label("Message", exact=True)).to_have_value("only if free")
    write(page, "together 1", "collect")
    write(page, "together 2", "collect")
    write(page, "after", "queue")
    write(page, "now", "interrupt")
    expect(page.locator(".turn-cancelled")).to_have_count(1)
    expect(page.locator(".turn-completed", has_text="echo: after")).to_have_count(1)
    together = page.locator(".turn-completed", has=page.locator(".bubble", has_text="together 1"))
    expect(together.locator(".bubble")).to_have_count(2)
    expect(page.locator(".turn-completed", has_text="echo: now")).to_have_count(1)
    message = host.post(session_id, "[[hold other]] away with it").json
    until(lambda: host.receipt(message["id"])["state"] == "running", "a turn that runs", 30)
    expect(page.locator(".turn-running")).to_have_count(1)
    write(page, "instead", "rollback")
    expect(page.locator(".rolled-back")).to_contain_text("Taken back")
    expect(page.locator(".turn-completed", has_text="echo: instead")).to_have_count(1)


def test_a_turn_is_cancelled_and_what_it_said_stays(host: Host, visit: Visit) -> None:
    session_id = host.session()
    page = visit.session(session_id)
    write(page, "[[stream 20 every 0]] [[hold gate]] never")
    expect(page.locator(".said")).to_contain_text(" 20")
    page.get_by_role("button", name="Cancel turn").click()
    expect(page.locator(".turn-cancelled")).to_contain_text("Cancelled. What was said until then is kept.")
    expect(page.locator(".turn-cancelled .said")).to_contain_text("1 2 3")
    expect(page.get_by_label("Message", exact=True)).to_be_focused()


def test_a_question_is_answered_in_place_with_a_word_to_the_agent(host: Host, visit: Visit) -> None:
    session_id = host.session()
    page = visit.session(session_id)
    write(page, "[[ask May I delete build/?]] done")
    card = page.locator(".approval")
    expect(card).to_contain_text("May I delete build/?")
    expect(page.locator("p[role=status]")).to_have_text("The agent asks: May I delete build/?")
    card.get_by_label("A word to the agent").fill(FINE)
    card.get_by_role("button", name="Deny").click()
    expect(page.locator(".decided")).to_contain_text("Denied")
    expect(page.locator(".decided")).to_contain_text(FINE)
    answered = host.api("GET", "/permissions?state=denied").json["items"]
    assert [(each["session_id"], each["note"], each["by"]) for each in answered] == [(session_id, FINE, "browser")]
    expect(page.locator(".turn-running")).to_have_count(0)


def test_tools_are_folded_and_a_turn_shows_its_time_and_usage(host: Host, visit: Visit) -> None:
    session_id = host.session()
    page = visit.session(session_id)
    write(page, "[[tool Bash]] [[stream 3 every 20]] well")
    expect(page.locator(".turn-completed")).to_have_count(1)
    tool = page.locator(".tool")
    expect(tool).to_contain_text("done")
    expect(tool.locator(".tool-body")).to_have_count(0)
    tool.locator("summary").press("Enter")
    expect(tool.locator(".tool-body")).to_be_visible()
    foot = page.locator(".turn-foot")
    expect(foot).to_contain_text("out tokens")
    foot.get_by_title("Timeline of this turn").click()
    expect(page.locator(".timeline li")).to_contain_text(["Until the first sign", "Bash", "Answer"])


def test_what_went_wrong_is_told_in_words(host: Host, visit: Visit) -> None:
    session_id = host.session()
    page = visit.session(session_id)
    write(page, "[[fail the printer is on fire]]")
    expect(page.locator(".turn-failed .error-note")).to_contain_text("The agent failed")
    expect(page.locator(".turn-failed .error-note")).to_contain_text("the printer is on fire")
    write(page, "[[exit 3]]")
    expect(page.locator(".turn-failed")).to_have_count(2)
    visit.tolerated = ("404",)
    page.goto(f"{host.ready['url']}/#/sessions/ses_none")
    expect(page.get_by_role("heading", level=1)).to_contain_text("ses_none")


def test_a_session_is_started_renamed_stopped_resumed_begun_anew_and_deleted(host: Host, visit: Visit) -> None:
    visit.tolerated = ("404",)  # the page may have asked once more while the session was deleted
    page = visit.board()
    page.get_by_role("button", name="New session").click()
    page.get_by_label("Agent", exact=True).last.select_option("echo")
    page.get_by_label("Title").fill("Plans")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("h1")).to_have_text("Plans")
    write(page, "remember this")
    expect(page.locator(".turn-completed")).to_have_count(1)

    def choose(name: str) -> None:
        page.get_by_label("What can be done with this session").click()
        page.get_by_role("button", name=name).click()

    choose("Rename")
    page.get_by_label("Title").fill("Other plans")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("h1")).to_have_text("Other plans")
    choose("Stop")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_label("Message", exact=True)).to_be_visible()
    choose("Begin anew")
    page.get_by_role("dialog").get_by_role("button", name="Begin anew").click()
    expect(page.locator(".mark", has_text="A new conversation begins")).to_be_visible()
    choose("Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator(".row")).to_have_count(0)
    assert host.api("GET", "/sessions").json["items"] == []


def test_the_page_is_worked_with_the_keyboard_alone(host: Host, visit: Visit) -> None:
    session_id = host.session(title="by hand")
    page = visit.board()
    expect(page.locator(".row")).to_have_count(1)
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Skip to the session")).to_be_focused()
    page.locator(f'[data-session="{session_id}"]').focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_be_focused()
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "message":
            break
    page.keyboard.type("typed")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("on two lines")
    page.keyboard.press("Enter")
    expect(page.locator(".turn-completed .bubble .plain-text")).to_have_text("typed\non two lines")
    expect(page.locator("p[role=status]")).to_have_text("Answered")
    page.get_by_label("What can be done with this session").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)

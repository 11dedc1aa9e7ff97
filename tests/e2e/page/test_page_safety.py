"""What is written is shown and never run; who is not signed in sees nothing; nothing comes from elsewhere."""

# ruff: noqa: RUF001 - how the page shows characters that would not be seen

from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from e2e.driver import Host
from e2e.visiting import Visit

HOSTILE = (
    "<script>window.run = 1</script>",
    '<img src="x" onerror="window.run = 1">',
    "<svg onload=window.run=1>",
    "[a link](javascript:window.run=1)",
    "[another](data:text/html,<script>window.run=1</script>)",
    "![a picture](https://elsewhere.example/p.png)",
    '<a href="https://elsewhere.example" onclick="window.run=1">here</a>',
    "<iframe srcdoc='<script>parent.run=1</script>'></iframe>",
    "<style>* { display: none }</style>",
    "```html\n<script>window.run = 1</script>\n```",
    '<form action="/v1/sessions" method="post"><input name="agent" value="echo"></form>',
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J",
    "user\u202etxt.exe \u2066hidden\u2069",
    "<!-- comment --> &lt;b&gt; <b>bold?</b>",
)


def harmless(page: Page) -> None:
    """Nothing that was written has become part of the page, or has done anything."""
    assert page.evaluate("window.run") is None
    found: list[list[str]] = page.evaluate(
        """() => [...document.querySelectorAll('#page *')]
            .map((element) => [element.localName, ...element.getAttributeNames()])"""
    )
    forbidden = {"script", "img", "iframe", "style", "object", "embed", "link"}
    assert not [names for names in found if names[0] in forbidden or any(name.startswith("on") for name in names[1:])]
    links = page.evaluate("() => [...document.querySelectorAll('#page a')].map((link) => link.href)")
    assert all(urlsplit(link).scheme in ("http", "https", "mailto", "") for link in links), links
    shown = page.locator("body").inner_text()
    assert not any(control in shown for control in "\x1b\x07\x9b\u202e\u2066\u2069")


def test_what_is_hostile_is_shown_in_messages_and_answers_and_never_run(host: Host, visit: Visit) -> None:
    session_id = host.session()
    page = visit.session(session_id)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    for text in HOSTILE:
        host.ended(host.post(session_id, text).json["id"], 30)
    expect(page.locator(".turn-completed")).to_have_count(len(HOSTILE))
    harmless(page)
    bubbles, answers = page.locator(".bubble"), page.locator(".answer")
    expect(bubbles.nth(0)).to_contain_text("<script>window.run = 1</script>")
    expect(answers.nth(0)).to_contain_text("<script>window.run = 1</script>")
    expect(answers.nth(1)).to_contain_text('<img src="x" onerror="window.run = 1">')
    expect(answers.nth(11)).to_contain_text("␛[31mred␛[0m ␛]0;title␇ ‹U+009B›2J")
    expect(answers.nth(12)).to_contain_text("user‹U+202E›txt.exe ‹U+2066›hidden‹U+2069›")
    expect(page.get_by_role("link", name="a picture")).to_have_attribute("rel", "noopener noreferrer")
    assert all(url.startswith(host.ready["url"]) for url in requests)
    page.reload()
    expect(page.locator(".turn-completed")).to_have_count(len(HOSTILE))
    harmless(page)


def test_names_labels_tools_and_questions_are_shown_and_never_run(host: Host, visit: Visit) -> None:
    evil = '<img src=x onerror="window.run=1">\u202eevil'
    session_id = host.session(key=f"key {evil}", title=f"title {evil}\x1b[2J", labels={f"l{evil}"[:60]: evil})
    host.ended(host.post(session_id, '[[tool <b>x</b>]] [[fail <img src=x onerror="window.run=1">]]').json["id"], 30)
    host.post(session_id, '[[ask <img src=x onerror="window.run=1"> \x1b[2J ?]]')
    page = visit.board()
    expect(page.locator(".approval .question")).to_have_text('<img src=x onerror="window.run=1"> ␛[2J ?')
    harmless(page)
    page.locator(".row").click()
    expect(page.locator("h1")).to_have_text('title <img src=x onerror="window.run=1">‹U+202E›evil␛[2J')
    expect(page.locator(".tool")).to_contain_text("<b>x</b>")
    expect(page.locator(".turn-failed .error-note")).to_contain_text("onerror")
    expect(page.locator(".approval")).to_be_visible()
    page.locator(".tool summary").click()
    harmless(page)


def test_the_page_runs_under_a_policy_that_allows_nothing_inline_and_no_text_as_markup(
    host: Host, visit: Visit
) -> None:
    page = visit.context.new_page()
    answer = page.goto(host.ready["url"])
    assert answer
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert {"default-src 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'"} <= set(
        policy.split("; ")
    )
    visit.tolerated = ("401", "TrustedHTML")
    with pytest.raises(Exception, match="TrustedHTML"):
        page.evaluate("document.body.innerHTML = '<b>x</b>'")


def test_a_link_signs_in_once_and_leaves_nothing_behind(host: Host, visit: Visit, visits: Callable[..., Visit]) -> None:
    session_id = host.session(title="mine")
    link = visit.link(session_id)
    page = visit.context.new_page()
    asked: list[tuple[str, str | None]] = []
    page.on("request", lambda request: asked.append((request.url, request.headers.get("referer"))))
    page.goto(link)
    expect(page.locator("h1")).to_have_text("mine")
    code = link.partition("=")[2].partition("/")[0]
    assert page.url == f"{host.ready['url']}/#/sessions/{session_id}"
    assert not any(code in part for url, referer in asked[1:] for part in (url, referer or ""))
    assert page.evaluate("history.length") == 2
    (cookie,) = visit.context.cookies()
    assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Strict")
    assert page.evaluate("document.cookie") == ""
    page.goto(host.ready["url"])
    expect(page.locator(".row")).to_have_count(1)

    stranger = visits(host)
    stranger.tolerated = ("401",)
    other = stranger.context.new_page()
    other.goto(link)
    expect(other.get_by_role("alert")).to_contain_text("used already")
    assert other.locator(".row").count() == 0
    other.get_by_label("Sign-in link").fill(visit.link())
    other.get_by_role("button", name="Sign in").click()
    expect(other.locator(".row")).to_have_count(1)


def test_a_browser_signs_out(host: Host, visit: Visit) -> None:
    page = visit.board()
    visit.tolerated = ("401",)
    page.get_by_label("More").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("This browser is not signed in")).to_be_visible()
    assert host.api("GET", "/tokens").json["items"] == []


def test_a_browser_whose_token_is_revoked_is_signed_out(host: Host, visit: Visit) -> None:
    page = visit.session(host.session(title="mine"))
    visit.tolerated = ("401",)
    (token,) = host.api("GET", "/tokens").json["items"]
    assert (token["name"], token["kind"]) == ("browser", "browser")
    assert host.cli("token", "revoke", token["id"]).code == 0
    host.session(title="what it should not hear of")
    expect(page.get_by_text("This browser is not signed in")).to_be_visible()
    page.reload()
    expect(page.get_by_text("This browser is not signed in")).to_be_visible()
    expect(page.get_by_text("what it should not hear of")).to_have_count(0)

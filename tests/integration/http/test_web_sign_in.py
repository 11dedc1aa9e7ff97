"""A browser signed in: by a link that works once, with a cookie that only this host's page can use."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from antiphon.http.browsers import CODE_LIFE_S
from antiphon.http.token_store import BROWSERS_MAX, TokenStore
from doubles.door import Door

PAGE = {"Sec-Fetch-Site": "same-origin"}


async def link(door: Door, **headers: str) -> str:
    """The code of a new sign-in link."""
    answer = await door.client.post("/v1/sign-in-links", headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()["path"].removeprefix("/#sign-in=")


class Browser:
    """What a browser sends for the page of a host."""

    def __init__(self, door: Door) -> None:
        self.origin = f"http://127.0.0.1:{door.port}"
        self.client = httpx2.AsyncClient(base_url=self.origin, trust_env=False)
        self.cookie = ""

    async def sign_in(self, code: str, **headers: str) -> httpx2.Response:
        answer = await self.client.post("/sign-in", json={"code": code}, headers={"Origin": self.origin, **headers})
        self.cookie = answer.headers.get("set-cookie", "").partition(";")[0]
        self.client.cookies.clear()
        return answer

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.request(method, path, json=body, headers={"Cookie": self.cookie, **named})


@pytest.fixture
async def browser(door: Door) -> AsyncIterator[Browser]:
    """A browser that was never here."""
    browser = Browser(door)
    async with browser.client:
        yield browser


@pytest.fixture
async def signed_in(door: Door, browser: Browser) -> Browser:
    """A browser that was signed in."""
    assert (await browser.sign_in(await link(door))).status_code == 204
    return browser


async def test_a_link_signs_a_browser_in_with_a_cookie_that_no_script_and_no_other_site_gets(
    door: Door, browser: Browser
) -> None:
    answer = await browser.sign_in(await link(door))
    told = answer.headers["set-cookie"]
    assert told.startswith(f"antiphon_{door.port}=antiphon_")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(told.split("; "))
    assert "Secure" not in told
    assert (await browser.ask("GET", "/v1/sessions", **PAGE)).status_code == 200
    made = await browser.ask("POST", "/v1/sessions", {"agent": "parrot"}, Origin=browser.origin, **PAGE)
    assert made.status_code == 201


async def test_over_tls_the_cookie_never_travels_without(door: Door, browser: Browser) -> None:
    answer = await browser.sign_in(await link(door), Origin=browser.origin.replace("http:", "https:"))
    assert "Secure" in answer.headers["set-cookie"].split("; ")


async def test_a_link_works_once(door: Door, browser: Browser) -> None:
    code = await link(door)
    assert (await browser.sign_in(code)).status_code == 204
    again = await browser.sign_in(code)
    assert (again.status_code, again.json()["code"]) == (401, "unauthorized")
    assert "set-cookie" not in again.headers


async def test_a_link_is_stale_after_a_minute(door: Door, browser: Browser, monkeypatch: Any) -> None:
    code = await link(door)
    clock = door.app.edge.tokens.clock
    later = clock.now() + CODE_LIFE_S * 1000
    with monkeypatch.context() as patch:
        patch.setattr(type(clock), "now", lambda _self: later)
        assert (await browser.sign_in(code)).status_code == 401


async def test_a_link_works_only_from_the_hosts_own_page(door: Door, browser: Browser) -> None:
    code = await link(door)
    assert (await browser.sign_in(code, Origin="http://127.0.0.1:1")).status_code == 403
    assert (await browser.client.post("/sign-in", json={"code": code})).status_code == 403
    assert (await browser.sign_in(code)).status_code == 204


async def test_a_cookie_counts_only_in_what_the_page_itself_asks_for(door: Door, signed_in: Browser) -> None:
    session = await door.session()
    path, text = f"/v1/sessions/{session['id']}/messages", {"text": "hello"}
    for headers in (
        {},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "same-origin"},
        {"Origin": signed_in.origin, "Sec_Fetch_Site": "same-site"},
        {"Origin": signed_in.origin, "Sec_Fetch_Site": "none"},
    ):
        answer = await signed_in.ask("POST", path, text, **headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), headers
    for site in ("same-site", "cross-site"):
        assert (await signed_in.ask("GET", "/v1/sessions", Sec_Fetch_Site=site)).status_code == 403
    assert (await door.client.get(f"/v1/sessions/{session['id']}")).json()["turns"] == 0


async def test_the_secret_in_a_cookie_is_no_bearer_token_and_a_token_is_no_cookie(
    door: Door, signed_in: Browser
) -> None:
    name, _, secret = signed_in.cookie.partition("=")
    as_token = await signed_in.client.get("/v1/sessions", headers={"Authorization": f"Bearer {secret}"})
    assert as_token.status_code == 401
    token = (await door.client.post("/v1/tokens", json={"name": "bot"})).json()["token"]
    signed_in.cookie = f"{name}={token}"
    assert (await signed_in.ask("GET", "/v1/sessions")).status_code == 401


async def test_cookies_of_others_on_the_machine_do_no_harm(door: Door, signed_in: Browser) -> None:
    signed_in.cookie = f'antiphon_1=other; bad={{"a":"; {signed_in.cookie}; =;;'
    assert (await signed_in.ask("GET", "/v1/sessions")).status_code == 200


async def test_a_browser_is_listed_signs_out_and_is_out(door: Door, signed_in: Browser) -> None:
    listed = (await door.client.get("/v1/tokens")).json()["items"]
    assert [token["kind"] for token in listed][-1] == "browser"
    assert listed[-1]["expires_at"] > listed[-1]["created_at"]
    out = await signed_in.ask("POST", "/v1/sign-out", Origin=signed_in.origin)
    assert out.status_code == 204
    assert "Max-Age=0" in out.headers["set-cookie"]
    assert (await signed_in.ask("GET", "/v1/sessions")).status_code == 401


async def test_revoking_a_token_signs_out_the_browsers_that_it_let_in(door: Door, browser: Browser) -> None:
    token = (await door.client.post("/v1/tokens", json={"name": "laptop"})).json()
    bearer = {"Authorization": f"Bearer {token['token']}"}
    unused = await link(door, **bearer)
    await browser.sign_in(await link(door, **bearer))
    assert (await browser.ask("GET", "/v1/sessions")).status_code == 200
    await door.client.delete(f"/v1/tokens/{token['id']}")
    assert (await browser.ask("GET", "/v1/sessions")).status_code == 401
    assert (await browser.sign_in(unused)).status_code == 401


async def test_a_token_that_may_only_look_lets_no_browser_in(door: Door) -> None:
    token = (await door.client.post("/v1/tokens", json={"name": "screen", "scope": "read"})).json()["token"]
    answer = await door.client.post("/v1/sign-in-links", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 403


async def test_a_browser_outlives_the_host_and_the_oldest_make_room(door: Door) -> None:
    store: TokenStore = door.app.edge.tokens
    first, secret = await store.admit_browser("browser", "full", None)
    again = TokenStore(store._path, store.clock, store._ids)
    assert again.match(secret) == first
    for _ in range(BROWSERS_MAX):
        await store.admit_browser("browser", "full", None)
    assert store.match(secret) is None
    assert sum(token.kind == "browser" for token in store.all()) == BROWSERS_MAX


async def test_a_browser_is_signed_out_when_its_time_is_up(door: Door, signed_in: Browser, monkeypatch: Any) -> None:
    clock = door.app.edge.tokens.clock
    later = clock.now() + 31 * 24 * 3600 * 1000
    with monkeypatch.context() as patch:
        patch.setattr(type(clock), "now", lambda _self: later)
        assert (await signed_in.ask("GET", "/v1/sessions")).status_code == 401

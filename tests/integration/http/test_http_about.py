"""What a host tells of itself: health, readiness, status, metrics, pages, and its access log."""

import logging
from pathlib import Path

import pytest

from antiphon.host.host import Host
from doubles.door import TOKEN, Door, opened


async def test_a_host_is_alive_and_ready_until_it_drains(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as door:
        assert (await door.client.get("/healthz")).json() == {"status": "ok"}
        assert (await door.client.get("/readyz")).json() == {"status": "ok"}
        assert isinstance(door.service, Host)
        door.service.drain()
        assert (await door.client.get("/healthz")).status_code == 200
        answer = await door.client.get("/readyz")
        assert (answer.status_code, answer.json()["code"]) == (503, "draining")
        assert int(answer.headers["retry-after"]) > 0


async def test_a_host_tells_its_agents_and_how_it_is(door: Door) -> None:
    agents = (await door.client.get("/v1/agents")).json()
    assert [(agent["name"], agent["available"]) for agent in agents["items"]] == [("parrot", True)]
    assert agents["items"][0]["capabilities"]["permissions"] is True
    status = (await door.client.get("/v1/status")).json()
    assert (status["store"], status["draining"], status["viewers"]) == ("memory", False, 0)


async def test_metrics_count_by_template_and_name_no_session(door: Door) -> None:
    await door.session("a-private-name")
    await door.client.get("/v1/sessions/a-private-name")
    answer = await door.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'antiphon_http_requests_total{method="GET",route="/v1/sessions/{ref}",status="200"}' in answer.text
    assert "antiphon_turns_running 0.0" in answer.text
    assert "a-private-name" not in answer.text


@pytest.mark.parametrize("path", ["/", "/docs"])
async def test_a_page_needs_nothing_from_anywhere_and_may_not_be_framed(door: Door, path: str) -> None:
    answer = await door.client.get(path)
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert (answer.headers["x-content-type-options"], answer.headers["x-frame-options"]) == ("nosniff", "DENY")
    assert "antiphon" in answer.text


async def test_answers_are_neither_cached_nor_guessed_at(door: Door) -> None:
    for path in ("/v1/status", "/v1/sessions/none"):
        headers = (await door.client.get(path)).headers
        assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")


async def test_the_access_log_names_routes_and_never_what_was_asked_or_said(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await door.session("a-private-name", title="a private title")
    await door.send("a private text", "a-private-name", Prefer="wait=5")
    await door.client.get("/v1/sessions?q=a-private-query")
    await door.client.get("/a-private-path")
    told = [vars(record) for record in caplog.records if record.name == "antiphon.http.access"]
    assert [(each["route"], each["status"]) for each in told] == [
        ("/v1/sessions", 201),
        ("/v1/sessions/{ref}/messages", 200),
        ("/v1/sessions", 200),
        ("none", 404),
    ]
    ours = [vars(record) for record in caplog.records if record.name.startswith("antiphon")]
    assert "private" not in str(ours)
    assert TOKEN not in str(ours)

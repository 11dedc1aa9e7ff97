"""The OpenAPI document is true: what it allows is served as it says, what it forbids is refused, and nothing breaks."""

from collections.abc import Iterator

import anyio.from_thread
import hypothesis
import pytest
import requests
import schemathesis
import schemathesis.openapi
from schemathesis import checks

from antiphon.http.openapi import document
from doubles.door import TOKEN, opened

HEADERS = {"Authorization": f"Bearer {TOKEN}"}
SETTINGS = hypothesis.settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.filter_too_much],
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
)

UNTOLD = ("cursor", "after", "before", "Last-Event-ID", "Idempotency-Key")
"""What no schema can tell: whether a cursor is one that was given, and whether a key was spent on another body."""
UNTOLD_IN_BODIES = ("settings", "cwd", "cron", "url", "\\x00")
"""Nor which settings fit together, which directories are there, which times ever come, where a host may deliver to, and
that no text anywhere may have U+0000."""

schema = schemathesis.openapi.from_dict(document())


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running host that has a session with a turn."""
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(opened(tmp_path_factory.mktemp("door") / "data")) as door,
    ):
        url = f"http://127.0.0.1:{door.port}"
        portal.call(door.session, "0")
        sent = requests.post(f"{url}/v1/sessions/0/messages", json={"text": "x"}, headers=HEADERS, timeout=5)
        assert sent.status_code == 202
        yield url


def test_the_document_that_is_served_is_the_one_that_is_tried(url: str) -> None:
    assert requests.get(f"{url}/openapi.json", timeout=5).json() == document()


@schema.parametrize()
@SETTINGS
def test_every_route_does_what_the_document_says(case: schemathesis.Case, url: str) -> None:
    excluded: list[schemathesis.CheckFunction] = []
    query, headers, body = case.query or {}, case.headers or {}, str(case.body)
    untold = any(name in query or name in headers for name in UNTOLD) or any(name in body for name in UNTOLD_IN_BODIES)
    if untold or "/import" in case.path:
        excluded.append(checks.positive_data_acceptance)
    if case.path == "/v1/sessions/import":
        excluded.append(checks.allow_header_conformance)  # the path is also the one of a session called import
    case.call_and_validate(base_url=url, headers=HEADERS, excluded_checks=excluded, timeout=10)

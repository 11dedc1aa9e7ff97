"""Logs and metrics tell what happened, and nothing of what was said."""

import ast
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import antiphon
from antiphon.host.service import HostStatus
from antiphon.telemetry import logs
from antiphon.telemetry.metrics import Metrics

SECRET = "what a person wrote"


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, put back as it was."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


def refuse() -> None:
    raise ValueError(SECRET)


def fail() -> None:
    try:
        refuse()
    except ValueError as error:
        raise RuntimeError(SECRET) from error


def fail_together() -> None:
    raise ExceptionGroup(SECRET, [ValueError(SECRET)])


@pytest.mark.parametrize("form", ["json", "text"])
def test_of_an_error_its_kind_and_place_are_logged_and_never_its_words(root: logging.Logger, form: logs.Form) -> None:
    stream = io.StringIO()
    logs.configure(form, "INFO", stream)
    log = logging.getLogger("antiphon.test")
    try:
        fail()
    except RuntimeError:
        log.exception("it failed", extra={"action": "test", "session_id": "ses_1", "prompt": SECRET})
    told = stream.getvalue()
    assert SECRET not in told
    assert "prompt" not in told
    assert "RuntimeError < ValueError" in told
    assert "test_http_telemetry.py" in told
    assert "ses_1" in told


def test_a_json_line_is_one_object_with_known_fields(root: logging.Logger) -> None:
    stream = io.StringIO()
    logs.configure("json", "INFO", stream)
    logging.getLogger("antiphon.test").info("done", extra={"action": "x", "status": 200, "duration_ms": 1.5})
    line = json.loads(stream.getvalue())
    assert list(line) == ["at", "level", "logger", "message", "action", "status", "duration_ms"]
    assert line["at"].endswith("Z")


def test_nobody_can_write_a_line_of_the_log(root: logging.Logger) -> None:
    stream = io.StringIO()
    logs.configure("text", "INFO", stream)
    logging.getLogger("antiphon.test").info("done", extra={"agent": "a\n2026 ERROR forged\x1b[31m"})
    assert stream.getvalue().count("\n") == 1
    assert "\x1b" not in stream.getvalue()


def test_logging_can_be_set_up_again(root: logging.Logger) -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.configure("text", "INFO", first)
    logs.configure("text", "WARNING", second)
    logging.getLogger("antiphon.test").info("unheard")
    logging.getLogger("antiphon.test").warning("heard")
    assert first.getvalue() == ""
    assert second.getvalue().count("heard") == 1


def test_a_group_of_errors_tells_its_first(root: logging.Logger) -> None:
    stream = io.StringIO()
    logs.configure("text", "INFO", stream)
    try:
        fail_together()
    except ExceptionGroup:
        logging.getLogger("antiphon.test").exception("it failed")
    assert "ExceptionGroup < ValueError" in stream.getvalue()
    assert SECRET not in stream.getvalue()


def logged_fields(tree: ast.AST) -> Iterator[str]:
    """The names in the `extra` of every call in a module, where it is written out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "extra" and isinstance(node.value, ast.Dict):
            yield from (str(key.value) for key in node.value.keys if isinstance(key, ast.Constant))


def test_every_field_that_is_logged_is_a_known_one() -> None:
    sources = Path(antiphon.__file__).parent.rglob("*.py")
    named = {name for source in sources for name in logged_fields(ast.parse(source.read_text()))}
    assert {"action", "session_id"} <= named
    assert named <= set(logs.FIELDS)


def test_metrics_tell_the_host_s_numbers_and_count_requests_by_route() -> None:
    metrics = Metrics()
    status = HostStatus(
        version="1", draining=False, store="memory", epoch="e", agents_open=2, max_agents=8, sessions_awake=3,
        turns_running=1, messages_queued=4, viewers=5, uptime_s=1.5,
    )  # fmt: skip
    metrics.answered("GET", "/v1/sessions/{ref}", 200, 0.002)
    metrics.answered("BREW", "none", 405, 0.001)
    text = metrics.render(status).decode()
    assert 'antiphon_host_info{store="memory",version="1"} 1.0' in text
    assert "antiphon_agents_open 2.0" in text
    assert "antiphon_draining 0.0" in text
    assert 'antiphon_http_requests_total{method="GET",route="/v1/sessions/{ref}",status="200"} 1.0' in text
    assert 'antiphon_http_requests_total{method="other",route="none",status="405"} 1.0' in text
    assert 'antiphon_http_request_duration_seconds_count{method="GET",route="/v1/sessions/{ref}"} 1.0' in text

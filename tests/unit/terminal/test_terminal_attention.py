"""The board's order, its filter, and what was seen."""

from pathlib import Path
from typing import Any

import pytest

from antiphon.client.documents import Session
from antiphon.terminal.attention import Wanted, by_attention, is_unread
from antiphon.terminal.seen import SESSIONS_MAX, Seen


def session(key: str, status: str = "idle", **fields: Any) -> Session:
    """A session as the host shows it."""
    return Session({"id": f"ses_{key}", "key": key, "status": status, "agent": "echo", "turns": 0} | fields)


def test_those_that_need_somebody_come_first_and_the_rest_by_activity() -> None:
    sessions = [
        session("old", active_at="2026-01-01"),
        session("new", "dormant", active_at="2026-01-03"),
        session("runs", "running", active_at="2026-01-01"),
        session("failed", "errored", active_at="2026-01-01"),
        session("asks", "asking", active_at="2026-01-01"),
        session("asked-later", "asking", active_at="2026-01-02"),
        session("stalled", "stalled", active_at="2026-01-01"),
    ]
    assert [each.key for each in by_attention(sessions)] == [
        "asked-later", "asks", "stalled", "failed", "runs", "new", "old",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "holds"),
    [
        ("", True),
        ("HOLI", True),
        ("holi plans", True),
        ("holi nothing", False),
        ("agent:echo", True),
        ("agent:claude", False),
        ("agent:claude agent:echo", True),
        ("label:team", True),
        ("label:team=a", True),
        ("label:team=b", False),
        ("label:none", False),
        ("status:idle plans", True),
        ("status:running", False),
        ("telegram:42", True),
        ("agent:", False),
    ],
)
def test_a_filter_line_holds_for_what_it_names(line: str, holds: bool) -> None:
    one = session("telegram:42", title="Holiday plans", labels={"team": "a"})
    assert Wanted.parse(line).holds(one) is holds


def test_unread_is_what_ended_since_it_was_seen_or_asks() -> None:
    seen = {"ses_a": 2}
    assert not is_unread(session("a", turns=2), seen)
    assert not is_unread(session("a", "running", turns=3, turn_id="turn_3"), seen)
    assert is_unread(session("a", turns=3), seen)
    assert is_unread(session("a", "asking", turns=2, turn_id="turn_2"), seen)
    assert not is_unread(session("b"), seen)


def test_what_was_seen_is_kept_and_never_goes_back(tmp_path: Path) -> None:
    seen = Seen("e-1/../x", tmp_path)
    assert seen.first_time
    seen.mark("ses_a", 3)
    seen.mark("ses_a", 2)
    seen.keep()
    again = Seen("e-1/../x", tmp_path)
    assert (again.first_time, again.marks) == (False, {"ses_a": 3})
    assert [path.name for path in tmp_path.iterdir()] == ["seen-e-1x.json"]


def test_marks_that_can_not_be_read_or_kept_are_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "seen-e.json").write_text("[1, 2")
    seen = Seen("e", tmp_path)
    assert seen.marks == {}
    for number in range(SESSIONS_MAX + 5):
        seen.mark(f"ses_{number}", 1)
    seen.keep()
    assert len(Seen("e", tmp_path).marks) == SESSIONS_MAX
    (tmp_path / "file").write_text("")
    Seen("e", tmp_path / "file").keep()

"""Every code has a status and a title, and every error becomes a whole problem document."""

import json

import pytest

from antiphon.core import errors
from antiphon.http import problems

KINDS = [kind for kind in errors.AntiphonError.__subclasses__() if kind.__module__ == errors.__name__]
NOT_FOUND = ["session", "message", "turn", "agent", "permission", "token"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not errors.NotFound])
def test_every_error_of_the_tree_has_a_status_of_its_own(kind: type[errors.AntiphonError]) -> None:
    assert problems.STATUSES[kind.code] < 500 or kind.code in (
        "agent_unavailable", "agent_failed", "draining", "store_unavailable",
    )  # fmt: skip


@pytest.mark.parametrize("kind", NOT_FOUND)
def test_whatever_is_not_found_is_404_and_named(kind: str) -> None:
    error = errors.NotFound(kind, "x")
    assert problems.status_of(error) == 404
    assert "x" in problems.document(error).values()


def test_statuses_and_titles_are_of_the_same_codes() -> None:
    assert problems.STATUSES.keys() == problems.TITLES.keys()
    assert problems.RETRY_AFTER_S.keys() <= problems.STATUSES.keys()


def test_a_document_holds_the_ids_and_no_id_hides_a_member_of_its_own() -> None:
    error = errors.Busy("Busy.", holder={"turn_id": "turn_1"}, status=1, code="x", title="y")
    document = problems.document(error)
    assert document["holder"] == {"turn_id": "turn_1"}
    assert (document["status"], document["code"], document["title"]) == (409, "session_busy", "A turn is running")


def test_headers_say_when_to_try_again_and_how_to_be_let_in() -> None:
    assert problems.headers_of(errors.Draining("x", retry_after_s=0))["retry-after"] == "0"
    assert problems.headers_of(errors.QueueFull("x"))["retry-after"] == "1"
    assert "retry-after" not in problems.headers_of(errors.InvalidRequest("x"))
    assert problems.headers_of(errors.Unauthorized("x"))["www-authenticate"].startswith("Bearer")


def test_an_unknown_code_is_a_mistake_of_the_host() -> None:
    class Strange(errors.AntiphonError):
        code = "strange"

    answer = problems.refusal(Strange("x"))
    assert (answer.status_code, json.loads(bytes(answer.body))["code"]) == (500, "strange")

"""The one error tree and its codes."""

import ast
import inspect
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from antiphon.core import decide, errors
from antiphon.core.errors import AntiphonError, NotFound

CODES = """
    session_busy session_stopped session_exists session_conflict turn_ended not_editable idempotency_key_reused
    invalid_request not_found method_not_allowed permission_answered precondition_failed message_too_large queue_full
    session_limit agent_unavailable agent_failed draining store_unavailable unauthorized forbidden
""".split()
OURS = ["fork_unavailable"]
"""For what the contract leaves open."""
KINDS = ("session", "message", "turn", "agent", "permission")


def below(kind: type[AntiphonError]) -> Iterator[type[AntiphonError]]:
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from below(child)


def test_every_code_of_the_contract_is_exactly_one_error() -> None:
    assert sorted(kind.code for kind in below(AntiphonError)) == sorted(CODES + OURS)


def test_every_error_is_drawn_in_the_tree() -> None:
    drawn = errors.__doc__ or ""
    assert [kind.__name__ for kind in below(AntiphonError) if kind.__name__ not in drawn] == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_found_has_a_code_of_its_kind_and_names_it(kind: str) -> None:
    error = NotFound(kind, "x_1")
    assert error.code == f"{kind}_not_found"
    assert error.ids == {"agent" if kind == "agent" else f"{kind}_id": "x_1"}
    assert "'x_1'" in error.detail
    assert NotFound.code == "not_found", "the class keeps its own code"


def test_ids_that_are_not_known_are_left_out() -> None:
    error = errors.Busy("Wait.", session_id="ses_1", turn_id=None, retry_after_s=1)
    assert (error.ids, error.retry_after_s, str(error)) == ({"session_id": "ses_1"}, 1, "Wait.")


def test_trying_again_is_only_advised_where_it_is_sensible() -> None:
    assert errors.Stopped("Resume it.").retry_after_s is None


def test_problems_of_messages_have_codes_that_are_documented() -> None:
    """`superseded` is a message's reason only: no request is ever refused with it."""
    codes: set[Any] = set()
    for node in ast.walk(ast.parse(inspect.getsource(decide))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Problem":
            codes |= {keyword.value.value for keyword in node.keywords if isinstance(keyword.value, ast.Constant)}
    known = {code for code in codes if isinstance(code, str) and " " not in code}
    assert known == {"agent_failed", "agent_unavailable", "superseded"}


def test_a_decision_is_events_or_a_refusal_or_a_repetition() -> None:
    assert {getattr(part, "__name__", "events") for part in get_args(decide.Decision)} == {
        "tuple",
        "Refused",
        "Repeated",
    }

"""Errors as exit codes and words."""

import pytest

from antiphon.cli.exits import ENDS, exit_code, problem, told
from antiphon.client.documents import ENDS as MESSAGE_ENDS
from antiphon.client.errors import ApiError, ClientError, ConnectionLost, HostNotReached, UnexpectedAnswer
from antiphon.client.local import StartFailed

CODES = {
    1: "method_not_allowed not_found agent_unavailable agent_failed store_unavailable",
    2: "invalid_request message_too_large",
    3: """session_busy queue_full draining session_exists session_stopped session_conflict session_limit turn_ended
        not_editable permission_answered precondition_failed idempotency_key_reused""",
    4: "session_not_found message_not_found turn_not_found agent_not_found permission_not_found token_not_found",
    8: "unauthorized forbidden",
}


@pytest.mark.parametrize(("code", "number"), [(code, number) for number in CODES for code in CODES[number].split()])
def test_every_refusal_has_its_exit_code_and_says_what_to_do(code: str, number: int) -> None:
    error = ApiError.of(400, {"code": code, "detail": "This happened."}, retry_after_s=3)

    assert exit_code(error) == number
    assert told(error).startswith("This happened.")
    assert told(error).endswith("Try again in 3 s.")
    assert problem(error)["code"] == code


@pytest.mark.parametrize(
    ("error", "number", "code"),
    [
        (HostNotReached("No host."), 5, "host_not_reached"),
        (ConnectionLost("It broke."), 5, "host_not_reached"),
        (StartFailed("It ended.", "/log"), 5, "host_not_reached"),
        (UnexpectedAnswer("What?"), 1, "internal"),
    ],
)
def test_trouble_on_the_way_has_its_exit_code(error: ClientError, number: int, code: str) -> None:
    assert (exit_code(error), problem(error)["code"]) == (number, code)
    assert told(error) == str(error)


def test_every_end_of_a_message_and_turn_has_an_exit_code() -> None:
    assert set(ENDS) == {*MESSAGE_ENDS, "completed"}
    assert {state for state, code in ENDS.items() if code == 7} == {"cancelled", "interrupted", "withdrawn"}


def test_a_refusal_names_the_turn_and_the_message_in_the_way() -> None:
    holder = {"turn_id": "turn_1", "message_id": None, "since": "2026-03-01T09:30:00.123Z"}
    busy = ApiError.of(409, {"code": "session_busy", "detail": "Busy.", "holder": holder}, retry_after_s=1)

    assert told(busy).startswith("Busy. In the way: turn turn_1, since 2026-03-01T09:30:00.123Z. ")

"""Turns: list, read, wait for, cancel."""

from starlette.responses import Response

from antiphon.host.views import Cancelled, TurnView
from antiphon.http import answers, headers
from antiphon.http.call import Call
from antiphon.http.forms import CancelQuery, ListQuery
from antiphon.http.routes import Description, Group, PageOf

GROUP = Group("turns")


@GROUP.route(
    "GET",
    "/v1/sessions/{ref}/turns",
    Description(query=ListQuery, answers={200: PageOf(TurnView)}, refusals=("session_not_found",)),
)
async def list_turns(call: Call) -> Response:
    """List a session's turns, of all its generations, oldest first."""
    query = call.query(ListQuery)
    return answers.answer(await call.service.turns(call.ref(), limit=query.limit, cursor=query.cursor))


@GROUP.route(
    "GET",
    "/v1/turns/{id}",
    Description(
        headers=("Prefer",),
        answers={200: TurnView, 202: TurnView},
        answer_headers=("Preference-Applied",),
        refusals=("turn_not_found",),
    ),
)
async def show_turn(call: Call) -> Response:
    """Show a turn.

    With `Prefer: wait=S` the answer comes at the turn's end, or with 202 when the time is up.
    """
    turn = await call.service.turn(call.id("turn"))
    seconds = call.wait_s()
    if seconds is None:
        return answers.answer(turn)
    if turn.state == "running":
        wait = call.service.wait_turn(turn.id, seconds)
        turn = await call.while_present(wait) or await call.service.turn(turn.id)
    status = 202 if turn.state == "running" else 200
    return answers.answer(turn, status, {"preference-applied": headers.applied_wait(seconds)})


@GROUP.route(
    "POST",
    "/v1/turns/{id}/cancel",
    Description(
        query=CancelQuery, answers={200: Cancelled}, refusals=("turn_not_found", "turn_ended", "session_conflict")
    ),
)
async def cancel_turn(call: Call) -> Response:
    """Cancel a turn, and no other.

    Answers once the agent has stopped, or was killed. What was said until then is kept. With `queue=true` all that
    waits in its session ends as cancelled in the same step; `message_ids` names it.
    """
    query = call.query(CancelQuery)
    return answers.answer(await call.service.cancel_turn(call.id("turn"), queue=query.queue))

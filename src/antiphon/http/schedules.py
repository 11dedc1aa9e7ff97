"""Schedules: add, list, remove, pause, resume."""

from starlette.responses import Response

from antiphon.http import answers
from antiphon.http.call import Call
from antiphon.http.forms import AddSchedule, SchedulesQuery
from antiphon.http.routes import Description, Group, PageOf
from antiphon.schedules.desk import ScheduleView

GROUP = Group("schedules")
ROOT = "/v1/schedules"
ONE = "/v1/schedules/{id}"
_OF_SCHEDULE = Description(answers={200: ScheduleView}, refusals=("schedule_not_found",))
_OF_CHANGE = Description(answers={200: ScheduleView}, refusals=("schedule_not_found", "session_conflict"))


@GROUP.route(
    "POST",
    ROOT,
    Description(
        body=AddSchedule,
        answers={201: ScheduleView},
        answer_headers=("Location",),
        refusals=("session_not_found", "agent_not_found"),
    ),
)
async def add_schedule(call: Call) -> Response:
    """Send a message again and again.

    Each run is one message, whatever happens to the host. `missed` says what becomes of runs at whose time no host was
    there: `skip` them, or `run_once` for all of them. `overlap` says what becomes of a run that finds the message of
    the one before it not ended: `skip` it, or `queue_one`, which lets one wait behind one that runs. `last_run` tells
    what was done.
    """
    form = await call.parsed(AddSchedule)
    view = await call.edge.schedules.add(form.new())
    return answers.answer(view, 201, {"location": f"{ROOT}/{view.id}"})


@GROUP.route("GET", ROOT, Description(query=SchedulesQuery, answers={200: PageOf(ScheduleView)}))
async def list_schedules(call: Call) -> Response:
    """List schedules, oldest first, each with its next runs and what became of the last one."""
    query = call.query(SchedulesQuery)
    page = await call.edge.schedules.schedules(session=query.session, limit=query.limit, cursor=query.cursor)
    return answers.answer(page)


@GROUP.route("GET", ONE, _OF_SCHEDULE)
async def show_schedule(call: Call) -> Response:
    """Show a schedule."""
    return answers.answer(await call.edge.schedules.schedule(call.id("schedule")))


@GROUP.route("DELETE", ONE, Description(answers={204: None}, refusals=("schedule_not_found",)))
async def remove_schedule(call: Call) -> Response:
    """Remove a schedule; what it has sent goes on."""
    await call.edge.schedules.remove(call.id("schedule"))
    return answers.nothing()


@GROUP.route("POST", f"{ONE}/pause", _OF_CHANGE)
async def pause_schedule(call: Call) -> Response:
    """Pause a schedule."""
    return answers.answer(await call.edge.schedules.pause(call.id("schedule")))


@GROUP.route("POST", f"{ONE}/resume", _OF_CHANGE)
async def resume_schedule(call: Call) -> Response:
    """Resume a schedule with its next run; what passed meanwhile is not made up for."""
    return answers.answer(await call.edge.schedules.resume(call.id("schedule")))

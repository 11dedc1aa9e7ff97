"""Events: of a session and of all sessions, as pages and as streams."""

from starlette.responses import Response

from antiphon.host.views import EventView
from antiphon.http import answers
from antiphon.http.call import Call
from antiphon.http.forms import EventsQuery
from antiphon.http.routes import Description, Group, PageOf
from antiphon.http.sse import EventStream

GROUP = Group("events")


def _after(call: Call, query: EventsQuery) -> str | None:
    """Where to go on. A browser that comes back sends the same query again, so `Last-Event-ID` counts more."""
    return call.header("last-event-id") or query.after


@GROUP.route(
    "GET",
    "/v1/sessions/{ref}/events",
    Description(
        query=EventsQuery,
        headers=("Last-Event-ID",),
        answers={200: PageOf(EventView)},
        stream=True,
        refusals=("session_not_found",),
    ),
)
async def session_events(call: Call) -> Response:
    """Read or follow a session's events.

    They begin with the first, or after a cursor. With `Accept: text/event-stream` they go on as they happen, until the
    session is deleted. A cursor that can't be served gets `gap`, then `snapshot`, then what follows.
    """
    ref, query = call.ref(), call.query(EventsQuery)
    after = _after(call, query)
    if not call.wants_events():
        return answers.answer(await call.service.events(ref, after=after, limit=query.limit))
    await call.service.events(ref, after=after, limit=1)  # what is wrong with the request is said before the stream
    return EventStream(call.service.follow(ref, after=after), call.edge)


@GROUP.route(
    "GET",
    "/v1/events",
    Description(query=EventsQuery, headers=("Last-Event-ID",), answers={200: PageOf(EventView)}, stream=True),
)
async def all_events(call: Call) -> Response:
    """Read or follow the events of all sessions.

    They begin now, or after a cursor of this feed: the page's `next_cursor`, or a stream's `id`.
    """
    query = call.query(EventsQuery)
    after = _after(call, query)
    if not call.wants_events():
        return answers.answer(await call.service.feed(after=after, limit=query.limit))
    page = await call.service.feed(after=after, limit=1)
    # "Now" is when the request was taken, not when the stream's first step runs: nothing in between is missed.
    return EventStream(call.service.follow_all(after=after or page.next_cursor), call.edge)

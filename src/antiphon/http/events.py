"""Events: of a session and of all sessions, as pages and as streams."""

from starlette.responses import Response

from antiphon.core.errors import InvalidRequest, NotFound
from antiphon.host.views import EventView, Page
from antiphon.http import answers
from antiphon.http.call import Call
from antiphon.http.forms import EventsQuery, SessionEventsQuery
from antiphon.http.routes import Description, Group, PageOf
from antiphon.http.selecting import Selection
from antiphon.http.sse import EventStream

GROUP = Group("events")
SEQUENCE_DIGITS_MAX = 18


def _after(call: Call, query: EventsQuery) -> str | None:
    """Where to go on. A browser that comes back sends the same query again, so `Last-Event-ID` counts more."""
    return call.header("last-event-id") or query.after


def _selection(query: EventsQuery) -> Selection:
    return Selection(tuple(query.types.split(",")) if query.types else (), query.inline_max)


@GROUP.route(
    "GET",
    "/v1/sessions/{ref}/events",
    Description(
        query=SessionEventsQuery,
        headers=("Last-Event-ID",),
        answers={200: PageOf(EventView)},
        stream=True,
        refusals=("session_not_found",),
    ),
)
async def session_events(call: Call) -> Response:
    """Read or follow a session's events.

    They begin with the first, or after a cursor. With `Accept: text/event-stream` they go on as they happen, until the
    session is deleted. A cursor that can't be served gets `gap`, then `snapshot`, then what follows. A page with
    `before` goes backwards: it has the newest events before that cursor, in their order. With `types` a page may have
    fewer events than its limit, or none, and a `next_cursor` all the same.
    """
    ref, query = call.ref(), call.query(SessionEventsQuery)
    after, selection = _after(call, query), _selection(query)
    if query.before is not None:
        return answers.answer(await _earlier(call, ref, query, selection))
    if not call.wants_events():

        async def read(start: str | None) -> Page:
            return await call.service.events(ref, after=start, limit=query.limit)

        page = await read(after) if selection.whole else await selection.page(read, after, query.limit)
        return answers.answer(page)
    await call.service.events(ref, after=after, limit=1)  # what is wrong with the request is said before the stream
    told = call.service.follow(ref, after=after)
    return EventStream(told if selection.whole else selection.stream(told), call.edge)


async def _earlier(call: Call, ref: str, query: SessionEventsQuery, selection: Selection) -> Page:
    if query.after is not None or call.wants_events():
        raise InvalidRequest("`before` is for pages without `after`; a stream only goes forward.")
    before = None if query.before == "end" else query.before
    page = await call.service.earlier_events(ref, before=before, limit=query.limit)
    items = tuple(selection.shown(event) for event in page.items if selection.keeps(event))
    return Page(items=items, next_cursor=page.next_cursor)


@GROUP.route(
    "GET",
    "/v1/sessions/{ref}/events/{id}",
    Description(answers={200: EventView}, refusals=("session_not_found", "event_not_found")),
)
async def show_event(call: Call) -> Response:
    """Show one event of a session, by its sequence, whole."""
    ref, sequence = call.ref(), call.id("event")
    if not (sequence.isascii() and sequence.isdecimal() and len(sequence) <= SEQUENCE_DIGITS_MAX):
        raise NotFound("event", sequence)
    event = await call.service.event(ref, int(sequence))
    if event is None:
        raise NotFound("event", sequence)
    return answers.answer(event)


@GROUP.route(
    "GET",
    "/v1/events",
    Description(query=EventsQuery, headers=("Last-Event-ID",), answers={200: PageOf(EventView)}, stream=True),
)
async def all_events(call: Call) -> Response:
    """Read or follow the events of all sessions.

    They begin now, or after a cursor of this feed: the page's `next_cursor`, or a stream's `id`. With `types` a page
    has those among the next `limit` events that are of these types.
    """
    query = call.query(EventsQuery)
    after, selection = _after(call, query), _selection(query)
    if not call.wants_events():
        page = await call.service.feed(after=after, limit=query.limit)
        items = tuple(selection.shown(event) for event in page.items if selection.keeps(event))
        return answers.answer(Page(items=items, next_cursor=page.next_cursor))
    page = await call.service.feed(after=after, limit=1)
    # "Now" is when the request was taken, not when the stream's first step runs: nothing in between is missed.
    told = call.service.follow_all(after=after or page.next_cursor)
    return EventStream(told if selection.whole else selection.stream(told), call.edge)

"""Sessions: start, find, change, stop, resume, clear, delete; their queue, transcript, export."""

from starlette.responses import Response

from antiphon.host.views import Receipt, SessionView, TranscriptItem
from antiphon.http import answers, bodies, headers
from antiphon.http.call import Call
from antiphon.http.forms import (
    ForkSession,
    PatchSession,
    ReorderQueue,
    SessionsQuery,
    StartSession,
    TranscriptQuery,
)
from antiphon.http.routes import Description, Group, PageOf

GROUP = Group("sessions")
ROOT = "/v1/sessions"
ONE = "/v1/sessions/{ref}"

_OF_SESSION = Description(answers={200: SessionView}, answer_headers=("ETag",), refusals=("session_not_found",))
EXPORT_SCHEMA = {
    "type": "object",
    "description": "What `GET /v1/sessions/{ref}/export` gave.",
    "properties": {"antiphon_export": {"const": 1}},
    "required": ["antiphon_export"],
}


@GROUP.route(
    "POST",
    ROOT,
    Description(
        body=StartSession,
        answers={201: SessionView, 200: SessionView},
        answer_headers=("Location", "ETag"),
        refusals=("session_exists", "agent_not_found", "session_limit", "draining"),
    ),
)
async def start_session(call: Call) -> Response:
    """Start a session.

    A key that is in use is refused with the id of the session that has it; with `if_exists: "return"` that session is
    the answer, with status 200.
    """
    form = await call.parsed(StartSession)
    found = form.if_exists == "return"
    view, made = await call.service.create_session(form.new(form.key), return_existing=found)
    return answers.session(view, 201 if made else 200, located=True)


@GROUP.route("GET", ROOT, Description(query=SessionsQuery, answers={200: PageOf(SessionView)}))
async def list_sessions(call: Call) -> Response:
    """List sessions, newest activity first."""
    query = call.query(SessionsQuery)
    labels = [label.partition("=") for label in query.label]
    page = await call.service.sessions(
        statuses=tuple(query.status),
        agent=query.agent,
        labels=tuple((name, value) for name, _, value in labels),
        text=query.q,
        limit=query.limit,
        cursor=query.cursor,
    )
    return answers.answer(page)


@GROUP.route(
    "POST",
    f"{ROOT}/import",
    Description(
        body=EXPORT_SCHEMA,
        answers={201: SessionView},
        answer_headers=("Location", "ETag"),
        refusals=("session_limit", "draining", "agent_not_found"),
    ),
)
async def import_session(call: Call) -> Response:
    """Make a session of an export.

    The session, its messages and turns get new ids; its key is kept if it is free. The body may have 256 MiB.
    """
    limits = call.edge.limits
    exported = bodies.parse_object(await call.raw_body(limits.import_body, limits.body_s * 10))
    return answers.session(await call.service.import_session(exported), 201, located=True)


@GROUP.route("GET", ONE, _OF_SESSION)
async def show_session(call: Call) -> Response:
    """Show a session."""
    return answers.session(await call.service.session(call.ref()))


@GROUP.route(
    "PATCH",
    ONE,
    Description(
        body=PatchSession,
        headers=("If-Match",),
        answers={200: SessionView},
        answer_headers=("ETag",),
        refusals=("session_not_found", "precondition_failed", "session_conflict"),
    ),
)
async def change_session(call: Call) -> Response:
    """Change what is known of a session.

    The body is a JSON merge patch (RFC 7396): null takes away, what is absent stays, and members of `labels` and
    `settings` are merged. Without `If-Match` the last writer of a field wins, and writers of different fields never
    disturb each other.
    """
    ref, revision = call.ref(), headers.expected_revision(call.header("if-match"))
    form = await call.parsed(PatchSession)
    return answers.session(await call.service.patch_session(ref, form.changes(), if_match=revision))


@GROUP.route("DELETE", ONE, Description(answers={204: None}, refusals=("session_not_found", "session_conflict")))
async def delete_session(call: Call) -> Response:
    """Delete a session.

    What runs and what waits ends as cancelled, and whoever waits for it gets that receipt. Answers once its agent is
    gone.
    """
    await call.service.delete_session(call.ref())
    return answers.nothing()


@GROUP.route("POST", f"{ONE}/stop", _OF_SESSION)
async def stop_session(call: Call) -> Response:
    """Stop a session.

    The running turn is cancelled, what waits stays queued, and new messages are refused until it is resumed. Answers
    once its agent is gone.
    """
    return answers.session(await call.service.stop_session(call.ref()))


@GROUP.route("POST", f"{ONE}/resume", _OF_SESSION)
async def resume_session(call: Call) -> Response:
    """Resume a stopped session; what waits runs."""
    return answers.session(await call.service.resume_session(call.ref()))


@GROUP.route("POST", f"{ONE}/clear", _OF_SESSION)
async def clear_session(call: Call) -> Response:
    """Begin a new generation.

    The transcript is empty again. The running turn is cancelled; what waits runs in the new generation.
    """
    return answers.session(await call.service.clear_session(call.ref()))


@GROUP.route(
    "POST",
    f"{ONE}/fork",
    Description(
        body=ForkSession,
        answers={201: SessionView},
        answer_headers=("Location", "ETag"),
        refusals=(
            *("session_not_found", "turn_not_found", "fork_unavailable", "session_exists"),
            *("session_limit", "draining"),
        ),
    ),
)
async def fork_session(call: Call) -> Response:
    """Begin a session where a turn of another one ended.

    It has the transcript until then, and its agent remembers it. Without `turn_id` it is the last completed turn. The
    other session is not touched.
    """
    ref = call.ref()
    form = await call.parsed(ForkSession)
    view = await call.service.fork_session(ref, turn_id=form.turn_id, key=form.key, title=form.title)
    return answers.session(view, 201, located=True)


@GROUP.route("GET", f"{ONE}/queue", Description(answers={200: PageOf(Receipt)}, refusals=("session_not_found",)))
async def show_queue(call: Call) -> Response:
    """Show what waits, in its order."""
    return answers.answer(await call.service.queue(call.ref()))


@GROUP.route(
    "POST",
    f"{ONE}/queue",
    Description(
        body=ReorderQueue,
        answers={200: PageOf(Receipt)},
        refusals=("session_not_found", "message_not_found", "not_editable"),
    ),
)
async def reorder_queue(call: Call) -> Response:
    """Reorder what waits.

    `order` must name every waiting message once.
    """
    ref = call.ref()
    form = await call.parsed(ReorderQueue)
    return answers.answer(await call.service.reorder(ref, tuple(form.order)))


@GROUP.route("POST", f"{ONE}/queue/pause", _OF_SESSION)
async def pause_queue(call: Call) -> Response:
    """Pause the queue.

    What runs goes on; what waits and what comes is kept, and no turn is started until the queue is continued, also
    after a restart of the host. `paused_at` of the session says since when.
    """
    return answers.session(await call.service.pause_queue(call.ref()))


@GROUP.route("POST", f"{ONE}/queue/continue", _OF_SESSION)
async def continue_queue(call: Call) -> Response:
    """Let a paused queue go on, in its order."""
    return answers.session(await call.service.continue_queue(call.ref()))


@GROUP.route(
    "POST",
    f"{ONE}/queue/cancel",
    Description(answers={200: PageOf(Receipt)}, refusals=("session_not_found", "session_conflict")),
)
async def cancel_queue(call: Call) -> Response:
    """Cancel all that waits.

    Answers the receipts of what was cancelled. The running turn goes on, with the steers that were handed to it.
    """
    return answers.answer(await call.service.cancel_queue(call.ref()))


@GROUP.route(
    "GET",
    f"{ONE}/transcript",
    Description(query=TranscriptQuery, answers={200: PageOf(TranscriptItem)}, refusals=("session_not_found",)),
)
async def show_transcript(call: Call) -> Response:
    """Show the conversation, oldest first."""
    query = call.query(TranscriptQuery)
    page = await call.service.transcript(
        call.ref(), generation=query.generation, limit=query.limit, cursor=query.cursor
    )
    return answers.answer(page)


@GROUP.route(
    "GET",
    f"{ONE}/export",
    Description(
        answers={200: "application/json"}, answer_headers=("Content-Disposition",), refusals=("session_not_found",)
    ),
)
async def export_session(call: Call) -> Response:
    """Export a session with its whole journal, for `POST /v1/sessions/import`."""
    exported = await call.service.export_session(call.ref())
    return answers.answer(exported, headers={"content-disposition": 'attachment; filename="session.json"'})

"""Messages: send, wait, read the receipt, edit, withdraw. `POST …/messages` is the path that must be short."""

import msgspec
from starlette.responses import Response

from antiphon.host.service import NewSession
from antiphon.host.views import Cancelled, Receipt
from antiphon.http import answers, bodies, headers
from antiphon.http.call import Call
from antiphon.http.forms import Birth, EditMessage, SendMessage
from antiphon.http.routes import Description, Group
from antiphon.http.sse import EventStream

GROUP = Group("messages")
ONE = "/v1/messages/{id}"


@GROUP.route(
    "POST",
    "/v1/sessions/{ref}/messages",
    Description(
        body=SendMessage,
        headers=("Idempotency-Key", "Prefer"),
        answers={202: Receipt, 200: Receipt},
        answer_headers=("Location", "Preference-Applied"),
        stream=True,
        refusals=(
            "session_not_found",
            "agent_not_found",
            "session_busy",
            "session_stopped",
            "session_conflict",
            "session_limit",
            "queue_full",
            "idempotency_key_reused",
            "agent_unavailable",
            "agent_failed",
            "draining",
        ),
    ),
)
async def send_message(call: Call) -> Response:
    """Send a message.

    Once this answers with 2xx the message is on disk and will reach exactly one end. Without `Prefer: wait=S` the
    answer is 202 and the receipt at once; with it 200 and the receipt at its end, or 202 and the receipt as it stands
    when the time is up. With `Accept: text/event-stream` the answer is the events of the message and its turn, and at
    last `event: receipt`.

    With an `Idempotency-Key` the same body is the same message, however often it is sent; another body under that key
    is refused. With `create` a session is started when there is none under the key.
    """
    ref = call.ref()
    key = headers.idempotency_key(call.header_values("idempotency-key"))
    form = await call.parsed(SendMessage)
    digest = bodies.digest(form) if key else None
    new = form.new(idempotency_key=key, digest=digest, sender=call.principal.name)
    receipt = await call.service.send(ref, new, create=_birth(ref, form.create))
    if call.wants_events():
        events = call.service.follow_message(receipt.id)
        return EventStream(events, call.edge, answers.location(receipt.id))
    return await _waited(call, receipt, accepted=202)


def _birth(ref: str, create: Birth | None) -> NewSession | None:
    """What the session is made of if it must be. Only a key can have no session yet: an id was given by the host."""
    return None if create is None or ref.startswith("ses_") else create.new(ref)


async def _waited(call: Call, receipt: Receipt, *, accepted: int) -> Response:
    """The receipt, after the wait that the client prefers."""
    seconds = call.wait_s()
    if seconds is None:
        return answers.receipt(receipt, accepted)
    service, ended = call.service, receipt
    if receipt.state not in answers.ENDED:
        wait = service.wait_message(receipt.id, seconds)
        ended = await call.while_present(wait) or await service.receipt(receipt.id)
    status = 200 if ended.state in answers.ENDED else 202
    return answers.receipt(ended, status, applied=headers.applied_wait(seconds))


_OF_MESSAGE = Description(
    headers=("Prefer",),
    answers={200: Receipt, 202: Receipt},
    answer_headers=("Location", "Preference-Applied"),
    refusals=("message_not_found",),
)
_OF_WAITING = msgspec.structs.replace(_OF_MESSAGE, refusals=("message_not_found", "not_editable", "session_conflict"))


@GROUP.route("GET", ONE, _OF_MESSAGE)
async def show_message(call: Call) -> Response:
    """Show a message's receipt.

    With `Prefer: wait=S` the answer comes at the message's end, or with 202 when the time is up.
    """
    return await _waited(call, await call.service.receipt(call.id("message")), accepted=200)


@GROUP.route("PATCH", ONE, msgspec.structs.replace(_OF_WAITING, body=EditMessage))
async def edit_message(call: Call) -> Response:
    """Edit a message that waits."""
    message_id = call.id("message")
    form = await call.parsed(EditMessage)
    receipt = await call.service.edit_message(message_id, text=form.text, when_busy=form.when_busy)
    return await _waited(call, receipt, accepted=200)


@GROUP.route("DELETE", ONE, _OF_WAITING)
async def withdraw_message(call: Call) -> Response:
    """Withdraw a message that waits; it will not run."""
    return await _waited(call, await call.service.withdraw_message(call.id("message")), accepted=200)


@GROUP.route(
    "POST",
    f"{ONE}/cancel",
    Description(answers={200: Cancelled}, refusals=("message_not_found", "not_editable", "session_conflict")),
)
async def cancel_message(call: Call) -> Response:
    """Cancel a message that waits or runs.

    A turn that answers it alone is cancelled, and this answers once the agent has stopped, or was killed. A turn that
    answers others, too, goes on for them: then `confirmed` is false. A message that has ended, or was just handed to
    the agent as a steer, is refused.
    """
    return answers.answer(await call.service.cancel_message(call.id("message")))

"""Webhooks and their deliveries: add, list, remove, enable, try again; and a message's answer, sent on."""

from starlette.responses import Response

from antiphon.http import answers
from antiphon.http.call import Call
from antiphon.http.forms import AddWebhook, DeliveriesQuery, SendOn, WebhooksQuery
from antiphon.http.routes import Description, Group, PageOf
from antiphon.webhooks.desk import DeliveryView, NewWebhookView, Retried, WebhookView

GROUP = Group("webhooks")
ROOT = "/v1/webhooks"
ONE = "/v1/webhooks/{id}"
_OF_WEBHOOK = Description(answers={200: WebhookView}, refusals=("webhook_not_found",))


@GROUP.route(
    "POST",
    ROOT,
    Description(
        body=AddWebhook, answers={201: NewWebhookView}, answer_headers=("Location",), refusals=("session_not_found",)
    ),
)
async def add_webhook(call: Call) -> Response:
    """Have a URL told of ends.

    From now on the host delivers each of the events to the URL, at least once and for at least 24 hours, signed as
    Standard Webhooks say: <https://www.standardwebhooks.com>. `webhook-id` is the same in every try. The secret is in
    this answer and nowhere else.
    """
    form = await call.parsed(AddWebhook)
    view = await call.edge.webhooks.add(form.new())
    return answers.answer(view, 201, {"location": f"{ROOT}/{view.id}"})


@GROUP.route("GET", ROOT, Description(query=WebhooksQuery, answers={200: PageOf(WebhookView)}))
async def list_webhooks(call: Call) -> Response:
    """List webhooks, oldest first, without their secrets.

    Those that send on the answer to a single message are listed with `message` only.
    """
    query = call.query(WebhooksQuery)
    page = await call.edge.webhooks.webhooks(message_id=query.message, limit=query.limit, cursor=query.cursor)
    return answers.answer(page)


@GROUP.route("GET", ONE, _OF_WEBHOOK)
async def show_webhook(call: Call) -> Response:
    """Show a webhook."""
    return answers.answer(await call.edge.webhooks.webhook(call.id("webhook")))


@GROUP.route("DELETE", ONE, Description(answers={204: None}, refusals=("webhook_not_found",)))
async def remove_webhook(call: Call) -> Response:
    """Remove a webhook, with what was still to be told to it."""
    await call.edge.webhooks.remove(call.id("webhook"))
    return answers.nothing()


@GROUP.route("POST", f"{ONE}/enable", _OF_WEBHOOK)
async def enable_webhook(call: Call) -> Response:
    """Enable a webhook whose receiver had answered 410 Gone.

    It is told what happens from now on. What it missed stays on the dead-letter list, for `retry`.
    """
    return answers.answer(await call.edge.webhooks.enable(call.id("webhook")))


@GROUP.route("POST", f"{ONE}/retry", Description(answers={200: Retried}, refusals=("webhook_not_found",)))
async def retry_webhook(call: Call) -> Response:
    """Try every dead delivery of a webhook again, under its old id; a disabled webhook is enabled."""
    return answers.answer(await call.edge.webhooks.retry_webhook(call.id("webhook")))


@GROUP.route("GET", "/v1/deliveries", Description(query=DeliveriesQuery, answers={200: PageOf(DeliveryView)}))
async def list_deliveries(call: Call) -> Response:
    """List deliveries, newest first; `state=dead` is the dead-letter list.

    What was delivered or given up is kept for seven days.
    """
    query = call.query(DeliveriesQuery)
    page = await call.edge.webhooks.deliveries(
        webhook_id=query.webhook, message_id=query.message, state=query.state, limit=query.limit, cursor=query.cursor
    )
    return answers.answer(page)


@GROUP.route(
    "POST",
    "/v1/deliveries/{id}/retry",
    Description(answers={200: Retried}, refusals=("delivery_not_found", "delivery_not_dead")),
)
async def retry_delivery(call: Call) -> Response:
    """Try a dead delivery again, under its old id, to every webhook for which it is dead."""
    return answers.answer(await call.edge.webhooks.retry_delivery(call.id("delivery")))


@GROUP.route(
    "POST",
    "/v1/messages/{id}/webhook",
    Description(
        body=SendOn,
        answers={201: NewWebhookView, 200: WebhookView},
        answer_headers=("Location",),
        refusals=("message_not_found",),
    ),
)
async def send_on(call: Call) -> Response:
    """Send a message's receipt on to a URL, once it has ended.

    For an answer whose caller left: whether the message ended long ago or still waits, the URL is told of its end, as
    `POST /v1/webhooks` describes. Asking again for the same URL is the same request, answered with 200; only a secret
    that is given replaces the one before.
    """
    message_id = call.id("message")
    form = await call.parsed(SendOn)
    view, new = await call.edge.webhooks.send_on(message_id, url=form.url, secret=form.secret)
    return answers.answer(view, 201 if new else 200, {"location": f"{ROOT}/{view.id}"})

"""`antiphon webhook …` and `antiphon message webhook`: who is told of ends, and how that went."""

from collections.abc import Iterable

from antiphon.cli.context import DEFAULT_LIMIT, Context, read_stdin
from antiphon.cli.exits import DONE
from antiphon.cli.grammar import Given, UsageError
from antiphon.cli.listing import ago, fields, table
from antiphon.client.documents import Delivery, Webhook


def add(context: Context, given: Given) -> int:
    """Have a URL told of ends."""
    with context.client() as client:
        webhook = client.webhook_add(
            given.text("target"),
            events=given.many("event") or None,
            ref=given.optional("session"),
            secret=_secret(given),
            description=given.optional("description"),
        )
    return _made(context, webhook)


def send_on(context: Context, given: Given) -> int:
    """Send a message's receipt on."""
    with context.client() as client:
        webhook = client.message_webhook(given.text("id"), given.text("target"), secret=_secret(given))
    return _made(context, webhook)


def _secret(given: Given) -> str | None:
    """The secret in the file that was named.

    Raises:
        UsageError: It can't be read.
    """
    path = given.optional("secret_file")
    if path is None:
        return None
    if path == "-":
        return read_stdin().strip()
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123  see antiphon.client.local
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can't be read: {getattr(error, 'strerror', None) or 'it is not text'}") from None


def _made(context: Context, webhook: Webhook) -> int:
    if context.out.as_json:
        context.out.document(webhook.document)
        return DONE
    fields(context.out, (("webhook", webhook.id), ("secret", webhook.secret)))
    if webhook.secret:
        context.out.note("The secret is not shown again.")
    return DONE


def list_(context: Context, given: Given) -> int:
    """List webhooks, or what could not be delivered to them."""
    with context.client() as client:
        if given.flag("dead"):
            return _deliveries(context, list(client.deliveries(state="dead", limit=DEFAULT_LIMIT)))
        found = list(client.webhooks())
    if context.out.as_json:
        context.out.document({"items": [webhook.document for webhook in found]})
    elif found:
        rows = [
            (each.id, each.state, each.session_id or "all", ", ".join(each.events), ago(each.created_at), each.url)
            for each in found
        ]
        table(context.out, ("WEBHOOK", "STATE", "SESSION", "EVENTS", "ADDED", "URL"), rows, coloured=1)
    else:
        context.out.note("No webhooks. `antiphon webhook add URL` adds one.")
    return DONE


def deliveries(context: Context, given: Given) -> int:
    """List deliveries, newest first."""
    with context.client() as client:
        found = client.deliveries(
            state=given.optional("state"),
            webhook_id=given.optional("webhook"),
            message_id=given.optional("message"),
            limit=given.whole("limit") or DEFAULT_LIMIT,
        )
        return _deliveries(context, list(found))


def _deliveries(context: Context, found: Iterable[Delivery]) -> int:
    if context.out.as_json:
        context.out.document({"items": [delivery.document for delivery in found]})
    elif found:
        rows = [
            (
                each.id,
                each.state,
                each.webhook_id,
                each.type,
                str(each.attempts),
                ago(each.happened_at),
                each.error or "",
            )
            for each in found
        ]
        table(
            context.out, ("DELIVERY", "STATE", "WEBHOOK", "EVENT", "TRIES", "HAPPENED", "LAST ERROR"), rows, coloured=1
        )
    else:
        context.out.note("No deliveries.")
    return DONE


def retry(context: Context, given: Given) -> int:
    """Try again what was given up."""
    id = given.text("id")
    with context.client() as client:
        many = client.webhook_retry(id) if id.startswith("hook_") else client.delivery_retry(id)
    if context.out.as_json:
        context.out.document({"retried": many})
    context.out.note(f"{many} {'delivery is' if many == 1 else 'deliveries are'} tried again.")
    return DONE


def enable(context: Context, given: Given) -> int:
    """Enable a webhook."""
    with context.client() as client:
        webhook = client.webhook_enable(given.text("id"))
    if context.out.as_json:
        context.out.document(webhook.document)
    context.out.note(f"{webhook.id} is {webhook.state}.")
    return DONE


def remove(context: Context, given: Given) -> int:
    """Remove a webhook."""
    webhook_id = given.text("id")
    with context.client() as client:
        client.webhook_remove(webhook_id)
    if context.out.as_json:
        context.out.document({"removed": webhook_id})
    context.out.note(f"{webhook_id} is removed.")
    return DONE

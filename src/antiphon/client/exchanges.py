"""Every route of the contract as a request and the reading of its answer: the one place that knows paths and bodies."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from antiphon.client.documents import (
    Agent,
    Cancelled,
    Delivery,
    Document,
    Event,
    HostStatus,
    Json,
    Line,
    Page,
    Peer,
    Permission,
    Receipt,
    Retried,
    Schedule,
    Session,
    SignInLink,
    Token,
    Turn,
    Webhook,
    page_of,
)
from antiphon.client.wire import EVENT_STREAM, Exchange, Request, encoded, query, quoted
from antiphon.core.words import WhenBusy

KEY_BYTES_MAX = 255


class Draft(NamedTuple):
    """A message that is about to be sent. `create` is the body of a session to start when the key has none."""

    ref: str
    text: str
    idempotency_key: str
    when_busy: WhenBusy | None = None
    files: Sequence[Json] = ()
    create: Json | None = None
    sender: str | None = None
    deadline_s: float | Json | None = None


def given(**fields: Any) -> Json:
    """The fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


# Sessions


def session_start(body: Json) -> Exchange[Session]:
    """Start a session. With `if_exists: "return"` and a key, asking again is safe."""
    repeatable = body.get("if_exists") == "return" and "key" in body
    return Exchange(_post("/v1/sessions", body, repeatable=repeatable), Session.read)


def session(ref: str) -> Exchange[Session]:
    """A session as it is now."""
    return Exchange(_get(_session(ref)), Session.read)


def session_filter(
    status: Sequence[str], agent: str | None, labels: Mapping[str, str] | None, text: str | None
) -> Json:
    """Which sessions a list has; all that is given must hold."""
    pairs = [f"{name}={value}" for name, value in (labels or {}).items()]
    return given(status=list(status) or None, agent=agent, label=pairs or None, q=text)


def sessions(fields: Mapping[str, Any]) -> Exchange[Page[Session]]:
    """A page of sessions, newest activity first."""
    return Exchange(_get("/v1/sessions" + query(fields)), page_of(Session))


def session_patch(ref: str, changes: Json, if_match: int | None) -> Exchange[Session]:
    """Merge metadata. Without `if_match` asking again does no harm."""
    headers = {} if if_match is None else {"if-match": str(if_match)}
    body = encoded(changes)
    return Exchange(Request("PATCH", _session(ref), headers, body, repeatable=if_match is None), Session.read)


def session_act(ref: str, verb: str) -> Exchange[Session]:
    """`stop`, `resume` or `clear` a session. A clear counts each time it is asked for."""
    return Exchange(_post(f"{_session(ref)}/{verb}", None, repeatable=verb != "clear"), Session.read)


def session_delete(ref: str) -> Exchange[None]:
    """Forget a session."""
    return Exchange(Request("DELETE", _session(ref)), _nothing)


def session_export(ref: str) -> Exchange[Json]:
    """A session with its whole journal."""
    return Exchange(_get(f"{_session(ref)}/export"), _object)


def session_import(exported: Json) -> Exchange[Session]:
    """A new session from an export."""
    return Exchange(_post("/v1/sessions/import", exported), Session.read)


def session_fork(ref: str, body: Json) -> Exchange[Session]:
    """A new session that begins where a turn of this one ended."""
    return Exchange(_post(f"{_session(ref)}/fork", body), Session.read)


def queue(ref: str) -> Exchange[Page[Receipt]]:
    """What waits, in order."""
    return Exchange(_get(f"{_session(ref)}/queue"), page_of(Receipt))


def reorder(ref: str, order: Sequence[str]) -> Exchange[Page[Receipt]]:
    """Reorder what waits; `order` names every waiting message."""
    request = _post(f"{_session(ref)}/queue", {"order": list(order)}, repeatable=True)
    return Exchange(request, page_of(Receipt))


def queue_act(ref: str, verb: str) -> Exchange[Session]:
    """`pause` a queue, or let it `continue`."""
    return Exchange(_post(f"{_session(ref)}/queue/{verb}", None, repeatable=True), Session.read)


def queue_cancel(ref: str) -> Exchange[Page[Receipt]]:
    """End all that waits; answers what did."""
    return Exchange(_post(f"{_session(ref)}/queue/cancel", None), page_of(Receipt))


def transcript(ref: str, fields: Mapping[str, Any]) -> Exchange[Page[Line]]:
    """A page of the conversation, oldest first."""
    return Exchange(_get(f"{_session(ref)}/transcript{query(fields)}"), page_of(Line))


def turns(ref: str, fields: Mapping[str, Any]) -> Exchange[Page[Turn]]:
    """A page of a session's turns, oldest first."""
    return Exchange(_get(f"{_session(ref)}/turns{query(fields)}"), page_of(Turn))


def event_page(ref: str, fields: Mapping[str, Any]) -> Exchange[Page[Event]]:
    """A page of a session's journal."""
    return Exchange(_get(f"{_session(ref)}/events{query(fields)}"), page_of(Event))


class Wish(NamedTuple):
    """Which events a stream has, and how: all of them whole, unless something else is wished for."""

    types: Sequence[str] = ()
    inline_max: int | None = None


WHOLE = Wish()


def event_stream(ref: str | None, after: str | None, wish: Wish = WHOLE) -> Request:
    """A session's events, or those of all sessions, as server-sent events."""
    path = "/v1/events" if ref is None else f"{_session(ref)}/events"
    fields = given(after=after, types=",".join(wish.types) or None, inline_max=wish.inline_max)
    return Request("GET", path + query(fields), {"accept": EVENT_STREAM}, repeatable=True)


def event(ref: str, sequence: int) -> Exchange[Event]:
    """One event of a session, whole."""
    return Exchange(_get(f"{_session(ref)}/events/{sequence}"), Event.read)


# Messages


def check_idempotency_key(key: str) -> None:
    """Raise `ValueError` unless a key can stand in the header `Idempotency-Key`."""
    if not (0 < len(key) <= KEY_BYTES_MAX and key.isascii() and key.isprintable() and key.strip() == key):
        raise ValueError(f"a key has 1 to {KEY_BYTES_MAX} printable ASCII characters, no space around them")


def send(draft: Draft, *, stream: bool = False) -> Exchange[Receipt]:
    """Send a message. Its idempotency key makes asking again safe.

    Raises:
        ValueError: The idempotency key can't stand in a header.
    """
    check_idempotency_key(draft.idempotency_key)
    headers = {"idempotency-key": draft.idempotency_key} | ({"accept": EVENT_STREAM} if stream else {})
    files = list(draft.files) or None
    body = given(
        text=draft.text,
        files=files,
        when_busy=draft.when_busy,
        create=draft.create,
        sender=draft.sender,
        deadline_s=draft.deadline_s,
    )
    return Exchange(_post(f"{_session(draft.ref)}/messages", body, headers=headers, repeatable=True), Receipt.read)


def message(message_id: str, wait_s: int = 0) -> Exchange[Receipt]:
    """A message's receipt, at its end when that comes within `wait_s`."""
    return Exchange(_get(f"/v1/messages/{quoted(message_id)}", wait_s), Receipt.read)


def message_edit(message_id: str, changes: Json) -> Exchange[Receipt]:
    """Change a message that waits."""
    request = Request("PATCH", f"/v1/messages/{quoted(message_id)}", {}, encoded(changes), repeatable=True)
    return Exchange(request, Receipt.read)


def message_withdraw(message_id: str) -> Exchange[Receipt]:
    """Take back a message that waits."""
    request = Request("DELETE", f"/v1/messages/{quoted(message_id)}")
    return Exchange(request, Receipt.read)


def message_cancel(message_id: str) -> Exchange[Cancelled]:
    """Cancel a message that waits or runs. One that was cancelled already is answered likewise."""
    return Exchange(_post(f"/v1/messages/{quoted(message_id)}/cancel", None, repeatable=True), Cancelled.read)


# Turns, permissions, agents, tokens, the host


def turn(turn_id: str, wait_s: int = 0) -> Exchange[Turn]:
    """A turn, at its end when that comes within `wait_s`."""
    return Exchange(_get(f"/v1/turns/{quoted(turn_id)}", wait_s), Turn.read)


def turn_cancel(turn_id: str, *, queue: bool = False) -> Exchange[Cancelled]:
    """Cancel that turn and no other, or with it all that waits; answers once its agent has stopped."""
    which = query({"queue": "true"}) if queue else ""
    return Exchange(_post(f"/v1/turns/{quoted(turn_id)}/cancel{which}", None), Cancelled.read)


def permissions(fields: Mapping[str, Any]) -> Exchange[Page[Permission]]:
    """A page of the approval inbox."""
    return Exchange(_get("/v1/permissions" + query(fields)), page_of(Permission))


def permission_answer(permission_id: str, body: Json) -> Exchange[Permission]:
    """Answer a permission request."""
    return Exchange(_post(f"/v1/permissions/{quoted(permission_id)}", body), Permission.read)


def agents() -> Exchange[Page[Agent]]:
    """The agents that the host knows."""
    return Exchange(_get("/v1/agents"), page_of(Agent))


def tokens() -> Exchange[Page[Token]]:
    """The tokens, without their secrets."""
    return Exchange(_get("/v1/tokens"), page_of(Token))


def token_create(name: str, scope: str) -> Exchange[Token]:
    """Make a token; its secret is told this once."""
    return Exchange(_post("/v1/tokens", {"name": name, "scope": scope}), Token.read)


def token_revoke(token_id: str) -> Exchange[None]:
    """Revoke a token."""
    return Exchange(Request("DELETE", f"/v1/tokens/{quoted(token_id)}"), _nothing)


def sign_in_link() -> Exchange[SignInLink]:
    """Make a link that signs a browser in. One that is lost on the way harms nobody."""
    return Exchange(_post("/v1/sign-in-links", None, repeatable=True), SignInLink.read)


# Webhooks and schedules


def webhook_add(body: Json) -> Exchange[Webhook]:
    """Have a URL told of ends."""
    return Exchange(_post("/v1/webhooks", body), Webhook.read)


def webhooks(fields: Mapping[str, Any]) -> Exchange[Page[Webhook]]:
    """A page of webhooks, oldest first."""
    return Exchange(_get("/v1/webhooks" + query(fields)), page_of(Webhook))


def webhook_act(webhook_id: str, verb: str) -> Exchange[Webhook]:
    """`enable` a webhook."""
    return Exchange(_post(f"/v1/webhooks/{quoted(webhook_id)}/{verb}", None, repeatable=True), Webhook.read)


def webhook_remove(webhook_id: str) -> Exchange[None]:
    """Remove a webhook."""
    return Exchange(Request("DELETE", f"/v1/webhooks/{quoted(webhook_id)}"), _nothing)


def webhook_retry(webhook_id: str) -> Exchange[Retried]:
    """Try every dead delivery of a webhook again."""
    return Exchange(_post(f"/v1/webhooks/{quoted(webhook_id)}/retry", None), Retried.read)


def deliveries(fields: Mapping[str, Any]) -> Exchange[Page[Delivery]]:
    """A page of deliveries, newest first."""
    return Exchange(_get("/v1/deliveries" + query(fields)), page_of(Delivery))


def delivery_retry(delivery_id: str) -> Exchange[Retried]:
    """Try a dead delivery again."""
    return Exchange(_post(f"/v1/deliveries/{quoted(delivery_id)}/retry", None), Retried.read)


def message_webhook(message_id: str, body: Json) -> Exchange[Webhook]:
    """Send a message's receipt on. Asking again is the same request."""
    return Exchange(_post(f"/v1/messages/{quoted(message_id)}/webhook", body, repeatable=True), Webhook.read)


def schedule_add(body: Json) -> Exchange[Schedule]:
    """Send a message again and again."""
    return Exchange(_post("/v1/schedules", body), Schedule.read)


def schedules(fields: Mapping[str, Any]) -> Exchange[Page[Schedule]]:
    """A page of schedules, oldest first."""
    return Exchange(_get("/v1/schedules" + query(fields)), page_of(Schedule))


def schedule(schedule_id: str) -> Exchange[Schedule]:
    """A schedule."""
    return Exchange(_get(f"/v1/schedules/{quoted(schedule_id)}"), Schedule.read)


def schedule_act(schedule_id: str, verb: str) -> Exchange[Schedule]:
    """`pause` or `resume` a schedule."""
    return Exchange(_post(f"/v1/schedules/{quoted(schedule_id)}/{verb}", None, repeatable=True), Schedule.read)


def schedule_remove(schedule_id: str) -> Exchange[None]:
    """Remove a schedule."""
    return Exchange(Request("DELETE", f"/v1/schedules/{quoted(schedule_id)}"), _nothing)


def status() -> Exchange[HostStatus]:
    """How the host is."""
    return Exchange(_get("/v1/status"), HostStatus.read)


def hosts() -> Exchange[Page[Peer]]:
    """The hosts that share the store."""
    return Exchange(_get("/v1/hosts"), page_of(Peer))


def host_act(name: str, verb: str) -> Exchange[Peer]:
    """`drain` or `undrain` a host."""
    return Exchange(_post(f"/v1/hosts/{quoted(name)}/{verb}", None, repeatable=True), Peer.read)


def _session(ref: str) -> str:
    return f"/v1/sessions/{quoted(ref)}"


def _get(path: str, wait_s: int = 0) -> Request:
    return Request("GET", path, _prefer(wait_s), wait_s=wait_s, repeatable=True)


def _post(path: str, body: Any, *, headers: Mapping[str, str] = {}, repeatable: bool = False) -> Request:
    return Request("POST", path, headers, None if body is None else encoded(body), repeatable=repeatable)


def _prefer(wait_s: int) -> dict[str, str]:
    return {"prefer": f"wait={wait_s}"} if wait_s else {}


def _nothing(_: Any) -> None:
    return None


def _object(body: Any) -> Json:
    return Document.read(body).document

"""The outbox in SQL: its commands, and the port over whatever runs them."""

# ruff: noqa: S608  # what is put into SQL is ours, values are bound

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from antiphon.core.session import Message
from antiphon.ports.outbox import Delivery, DeliveryState, Due, TooMany, Webhook
from antiphon.ports.store import Listed
from antiphon.store.cursors import cursor as cursor_at
from antiphon.store.cursors import place
from antiphon.store.sql import rows
from antiphon.store.sql.reads import Where
from antiphon.store.sql.statements import Command, Row
from antiphon.store.telling import Telling, end_of

TARGETS = 256
"""So many targets are told of at a time."""

_WEBHOOK = (
    "id, url, target, secret, events, session_id, message_id, description, created_at, disabled_at, disabled_because"
)
_DELIVERY = (
    "id, webhook_id, target, type, at, session_id, message_id, subject, state, attempts, since, next_at, settled_at,"
    " status, error"
)
_FRESH = (
    "id, webhook_id, target, type, at, session_id, message_id, subject, state, attempts, since, next_at, claimed_until"
)
TELL = (
    f"INSERT INTO deliveries ({_FRESH})"
    " SELECT $1, w.id, w.target, $2, $3, $4, $5, $6, 'pending', 0, $3, $3, 0 FROM webhooks w"
    " WHERE w.disabled_at IS NULL AND instr(w.events, $7) > 0"
    " AND (w.message_id = $5 OR w.message_id IS NULL AND (w.session_id IS NULL OR w.session_id = $4))"
    " ON CONFLICT (webhook_id, id) DO NOTHING RETURNING 1"
)
"""Makes the deliveries of one event, in a commit of SQLite's."""


def told(telling: Telling) -> tuple[Any, ...]:
    """The parameters of `TELL`."""
    return (
        telling.id,
        telling.type,
        telling.at,
        telling.session_id,
        telling.message_id,
        rows.encode(telling.subject),
        needle(telling.type),
    )


def needle(type: str) -> str:
    """What the column `events` of a webhook holds if it wants this type."""
    return f'"{type}"'


def _webhook(row: Row) -> Webhook:
    fields = dict(zip(_WEBHOOK.split(", "), row, strict=True))
    fields["events"] = tuple(msgspec.json.decode(fields["events"], type=list[str]))
    return Webhook(**fields)


def _delivery(row: Row) -> Delivery:
    fields = dict(zip(_DELIVERY.split(", "), row, strict=True))
    try:
        fields["subject"] = msgspec.json.decode(fields["subject"], type=dict[str, Any])
    except (
        rows.UNREADABLE
    ):  # it is only asked for when the session is gone: that something happened is told all the same
        fields["subject"] = {}
    return Delivery(**fields)


def add(webhook: Webhook, *, limit: int, rewrite_secret: bool) -> Command[Webhook | None]:
    """See `Outbox.add`."""
    record = None
    if webhook.message_id is None:
        [(many,)] = yield "SELECT count(*) FROM webhooks WHERE message_id IS NULL", ()
        if many >= limit:
            raise TooMany
    else:
        found = yield (
            (
                "SELECT m.record FROM messages m JOIN sessions s ON s.number = m.session"
                " WHERE m.id = $1 AND s.deleted_at IS NULL"
            ),
            (webhook.message_id,),
        )
        if not found:
            return None
        record = rows.read("message", webhook.session_id or "", rows.message, found[0][0])
    kept = yield from _insert(webhook, rewrite_secret=rewrite_secret)
    if record is not None and record.ended_at is not None:
        yield from _deliver(end_of(record), kept)
    return kept


def _insert(webhook: Webhook, *, rewrite_secret: bool) -> Command[Webhook]:
    values = (*[getattr(webhook, name) for name in _WEBHOOK.split(", ") if name != "events"],)
    columns = _WEBHOOK.replace("events, ", "") + ", events"
    numbers = ", ".join(f"${number}" for number in range(1, len(values) + 2))
    conflict = "ON CONFLICT (message_id, url) WHERE message_id IS NOT NULL DO UPDATE SET "
    conflict += "secret = excluded.secret" if rewrite_secret else "url = excluded.url"
    found = yield (
        f"INSERT INTO webhooks ({columns}) VALUES ({numbers}) {conflict} RETURNING {_WEBHOOK}",
        (*values, rows.encode(webhook.events).decode()),
    )
    return _webhook(found[0])


def _deliver(telling: Telling, webhook: Webhook) -> Command[int]:
    """Make the delivery of one event for one webhook, if there has been none."""
    made = yield (
        (
            f"INSERT INTO deliveries ({_FRESH})"
            " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'pending', 0, $9, $10, 0)"
            " ON CONFLICT (webhook_id, id) DO NOTHING RETURNING 1"
        ),
        (
            telling.id,
            webhook.id,
            webhook.target,
            telling.type,
            telling.at,
            telling.session_id,
            telling.message_id,
            rows.encode(telling.subject),
            telling.at,
            telling.at,
        ),
    )
    return len(made)


def webhook(webhook_id: str) -> Command[Webhook | None]:
    """See `Outbox.webhook`."""
    found = yield f"SELECT {_WEBHOOK} FROM webhooks WHERE id = $1", (webhook_id,)
    return _webhook(found[0]) if found else None


def webhooks(*, message_id: str | None, cursor: str | None, limit: int) -> Command[Listed]:
    """See `Outbox.webhooks`."""
    where = Where()
    if message_id is None:
        where = Where("message_id IS NULL")
    else:
        where.add("message_id = {}", message_id)
    if cursor is not None:
        where.add("number > {}", *place("webhooks", cursor, int))
    found = yield (
        f"SELECT number, {_WEBHOOK} FROM webhooks WHERE {where} ORDER BY number LIMIT {where.bind(limit + 1)}",
        tuple(where.args),
    )
    return _page("webhooks", found, limit, _webhook)


def remove(webhook_id: str) -> Command[bool]:
    """See `Outbox.remove`."""
    yield "DELETE FROM deliveries WHERE webhook_id = $1", (webhook_id,)
    return bool((yield "DELETE FROM webhooks WHERE id = $1 RETURNING 1", (webhook_id,)))


def disable(webhook_id: str, *, because: str, now: int) -> Command[None]:
    """See `Outbox.disable`."""
    yield (
        "UPDATE webhooks SET disabled_at = $2, disabled_because = $3 WHERE id = $1 AND disabled_at IS NULL",
        (webhook_id, now, because),
    )
    yield (
        (
            "UPDATE deliveries SET state = 'dead', settled_at = $2, error = $3, claimed_until = 0"
            " WHERE webhook_id = $1 AND state = 'pending'"
        ),
        (webhook_id, now, because),
    )


def enable(webhook_id: str) -> Command[bool]:
    """See `Outbox.enable`."""
    found = yield (
        "UPDATE webhooks SET disabled_at = NULL, disabled_because = NULL WHERE id = $1 RETURNING 1",
        (webhook_id,),
    )
    return bool(found)


def due(now: int) -> Command[Due]:
    """See `Outbox.due`."""
    targets = yield (
        (
            "SELECT target FROM deliveries WHERE state = 'pending' AND next_at <= $1 AND claimed_until <= $1"
            f" GROUP BY target ORDER BY min(next_at) LIMIT {TARGETS}"
        ),
        (now,),
    )
    [(later, freed)] = yield (
        (
            "SELECT min(CASE WHEN next_at > $1 THEN next_at END),"
            " min(CASE WHEN next_at <= $1 AND claimed_until > $1 THEN claimed_until END)"
            " FROM deliveries WHERE state = 'pending'"
        ),
        (now,),
    )
    next_at = min((at for at in (later, freed) if at is not None), default=None)
    return Due(targets=tuple(target for (target,) in targets), next_at=next_at)


def take(target: str, *, host: str, now: int, until: int, limit: int, lock: str = "") -> Command[Sequence[Delivery]]:
    """See `Outbox.take`. `lock` is what an engine with several writers needs behind the choice."""
    chosen = (
        "SELECT number FROM deliveries WHERE target = $1 AND state = 'pending' AND next_at <= $2"
        f" AND claimed_until <= $2 ORDER BY next_at, number LIMIT $5 {lock}"
    )
    found = yield (
        (f"UPDATE deliveries SET claimed_by = $3, claimed_until = $4 WHERE number IN ({chosen}) RETURNING {_DELIVERY}"),
        (target, now, host, until, limit),
    )
    return sorted((_delivery(row) for row in found), key=lambda delivery: (delivery.next_at, delivery.id))


def settle(delivery: Delivery) -> Command[None]:
    """See `Outbox.settle`."""
    yield (
        (
            "UPDATE deliveries SET state = $3, attempts = $4, next_at = $5, settled_at = $6, status = $7, error = $8,"
            " claimed_until = 0 WHERE webhook_id = $1 AND id = $2 AND state = 'pending'"
        ),
        (
            delivery.webhook_id,
            delivery.id,
            delivery.state,
            delivery.attempts,
            delivery.next_at,
            delivery.settled_at,
            delivery.status,
            delivery.error,
        ),
    )


def release(host: str | None) -> Command[None]:
    """See `Outbox.release`."""
    if host is None:
        yield "UPDATE deliveries SET claimed_until = 0 WHERE claimed_until > 0 AND state = 'pending'", ()
    else:
        yield (
            "UPDATE deliveries SET claimed_until = 0 WHERE claimed_by = $1 AND claimed_until > 0 AND state = 'pending'",
            (host,),
        )


def deliveries(which: Mapping[str, str | None], *, cursor: str | None, limit: int) -> Command[Listed]:
    """See `Outbox.deliveries`; `which` are columns and what they must hold, None for anything."""
    where = Where("number > 0")
    for column, value in which.items():
        if value is not None:
            where.add(f"{column} = {{}}", value)
    if cursor is not None:
        where.add("number < {}", *place("deliveries", cursor, int))
    found = yield (
        f"SELECT number, {_DELIVERY} FROM deliveries WHERE {where} ORDER BY number DESC LIMIT {where.bind(limit + 1)}",
        tuple(where.args),
    )
    return _page("deliveries", found, limit, _delivery)


def _page(kind: str, found: list[Row], limit: int, decode: Callable[[Row], Any]) -> Listed:
    next_cursor = cursor_at(kind, found[limit - 1][0]) if len(found) > limit else None
    return Listed(items=tuple(decode(row[1:]) for row in found[:limit]), next_cursor=next_cursor)


def retry(*, webhook_id: str | None, delivery_id: str | None, now: int) -> Command[int]:
    """See `Outbox.retry`."""
    where = Where("state = 'dead'")
    since = where.bind(now)
    for column, value in (("webhook_id", webhook_id), ("id", delivery_id)):
        if value is not None:
            where.add(f"{column} = {{}}", value)
    found = yield (
        (
            f"UPDATE deliveries SET state = 'pending', attempts = 0, since = {since}, next_at = {since},"
            f" settled_at = NULL, claimed_until = 0 WHERE {where} RETURNING 1"
        ),
        tuple(where.args),
    )
    return len(found)


def reconcile() -> Command[int]:
    """See `Outbox.reconcile`. Also of deleted sessions, whose messages are there until they are purged."""
    columns = ", ".join(f"w.{name}" for name in _WEBHOOK.split(", "))
    found = yield (
        (
            f"SELECT {columns}, m.record FROM webhooks w JOIN messages m ON m.id = w.message_id"
            " WHERE w.message_id IS NOT NULL AND w.disabled_at IS NULL"
            " AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.webhook_id = w.id)"
        ),
        (),
    )
    made = 0
    for row in found:
        webhook, message = _webhook(row[:-1]), _readable(row[-1])
        if message is not None and message.ended_at is not None:
            made += yield from _deliver(end_of(message), webhook)
    return made


def _readable(record: bytes) -> Message | None:
    """A message, unless its row is damaged: that is told by whoever asks for it."""
    try:
        return rows.message(record)
    except rows.UNREADABLE:
        return None


def tidy(*, before: int) -> Command[int]:
    """See `Outbox.tidy`. A webhook for one message goes together with its delivery, or it would be told again."""
    gone = [
        (
            "DELETE FROM webhooks WHERE message_id IS NOT NULL"
            " AND id IN (SELECT webhook_id FROM deliveries WHERE settled_at < $1) RETURNING 1"
        ),
        "DELETE FROM deliveries WHERE settled_at < $1 RETURNING 1",
        (
            "DELETE FROM webhooks WHERE number IN (SELECT w.number FROM webhooks w"
            " LEFT JOIN sessions s ON s.id = w.session_id AND s.deleted_at IS NULL"
            " WHERE w.session_id IS NOT NULL AND s.id IS NULL AND w.created_at < $1"
            " AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.webhook_id = w.id)) RETURNING 1"
        ),
    ]
    taken = 0
    for sql in gone:
        taken += len((yield sql, (before,)))
    return taken


def counts() -> Command[dict[str, int]]:
    """See `Outbox.counts`."""
    [(pending,)] = yield "SELECT count(*) FROM deliveries WHERE state = 'pending'", ()
    [(dead,)] = yield "SELECT count(*) FROM deliveries WHERE state = 'dead'", ()
    return {"pending": pending, "dead": dead}


def any_webhook() -> Command[bool]:
    """Whether there is a webhook at all."""
    return bool((yield "SELECT 1 FROM webhooks LIMIT 1", ()))


Run = Callable[[Callable[[], Command[Any]]], Awaitable[Any]]
"""What runs a command in a transaction: the durable result, or what the command raised."""


class SqlOutbox:
    """The outbox of a store that runs SQL; see `Outbox`.

    Attributes:
        listened: Whether there may be webhooks. While there are none, a commit has nothing to look for.
    """

    def __init__(self, read: Run, write: Run, *, lock: str = "") -> None:
        """`lock` is what an engine with several writers needs behind a choice of rows to be claimed."""
        self._read = read
        self._write = write
        self._lock = lock
        self._stirred = asyncio.Event()
        self.listened = True

    @property
    def stirred(self) -> asyncio.Event:
        return self._stirred

    async def add(self, webhook: Webhook, *, limit: int, rewrite_secret: bool) -> Webhook | None:
        self.listened = True  # before the writer comes to it: whoever commits after it looks
        kept = await self._write(partial(add, webhook, limit=limit, rewrite_secret=rewrite_secret))
        if webhook.message_id is not None:
            self._stirred.set()
        return kept

    async def webhook(self, webhook_id: str) -> Webhook | None:
        return await self._read(partial(webhook, webhook_id))

    async def webhooks(self, *, message_id: str | None, cursor: str | None, limit: int) -> Listed:
        return await self._read(partial(webhooks, message_id=message_id, cursor=cursor, limit=limit))

    async def remove(self, webhook_id: str) -> bool:
        return await self._write(partial(remove, webhook_id))

    async def disable(self, webhook_id: str, *, because: str, now: int) -> None:
        await self._write(partial(disable, webhook_id, because=because, now=now))

    async def enable(self, webhook_id: str) -> bool:
        return await self._write(partial(enable, webhook_id))

    async def due(self, now: int) -> Due:
        return await self._read(partial(due, now))

    async def take(self, target: str, *, host: str, now: int, until: int, limit: int) -> Sequence[Delivery]:
        taking = partial(take, target, host=host, now=now, until=until, limit=limit, lock=self._lock)
        return await self._write(taking)

    async def settle(self, delivery: Delivery) -> None:
        await self._write(partial(settle, delivery))

    async def release(self, host: str | None) -> None:
        await self._write(partial(release, host))

    async def deliveries(
        self,
        *,
        delivery_id: str | None = None,
        webhook_id: str | None = None,
        message_id: str | None = None,
        state: DeliveryState | None = None,
        cursor: str | None,
        limit: int,
    ) -> Listed:
        which = {"id": delivery_id, "webhook_id": webhook_id, "message_id": message_id, "state": state}
        return await self._read(partial(deliveries, which, cursor=cursor, limit=limit))

    async def retry(self, *, webhook_id: str | None, delivery_id: str | None, now: int) -> int:
        made = await self._write(partial(retry, webhook_id=webhook_id, delivery_id=delivery_id, now=now))
        if made:
            self._stirred.set()
        return made

    async def reconcile(self) -> int:
        made = await self._write(reconcile)
        if made:
            self._stirred.set()
        return made

    async def tidy(self, *, before: int) -> int:
        return await self._write(partial(tidy, before=before))

    async def counts(self) -> dict[str, int]:
        return await self._read(counts)

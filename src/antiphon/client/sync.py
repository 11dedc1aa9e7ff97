"""The sync client, which the command line uses too."""

import os
from collections.abc import Generator, Iterator, Sequence
from time import monotonic  # noqa: TID251  the clock of this client's plans
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from antiphon.client import exchanges, following
from antiphon.client.address import Address
from antiphon.client.documents import (
    Agent,
    Cancelled,
    Delivery,
    Event,
    HostStatus,
    Json,
    Line,
    Peer,
    Permission,
    Receipt,
    Schedule,
    Session,
    SignInLink,
    Token,
    Turn,
    Webhook,
)
from antiphon.client.driving import Driver
from antiphon.client.exchanges import Draft, given
from antiphon.client.keys import new_key
from antiphon.client.local import LocalHost
from antiphon.client.plans import Pace, Plan, Plans
from antiphon.client.transport import Transport
from antiphon.client.wire import Exchange
from antiphon.core.words import WhenBusy

T = TypeVar("T")


class Client:
    """A host as seen by one caller. Threads may share a client; use it as a context manager or close it.

    A `ref` names a session by its id (`ses_…`) or its key. What a lost connection may have hidden is asked for again
    where that is safe, within bounded time; everything else is told. Every method raises `ClientError`s, see
    `antiphon.client.errors`: `ApiError` with the contract's code, `HostNotReached` when nobody answers.
    """

    def __init__(self, url: str, token: str | None = None, *, pace: Pace | None = None) -> None:
        """A client of the host at `url`, such as `http://127.0.0.1:7411`."""
        address = Address.parse(url, token)
        self._transport = Transport(lambda: address, monotonic)
        self._plans = Plans(monotonic, pace or Pace())

    @classmethod
    def local(
        cls,
        data_dir: str | os.PathLike[str] | None = None,
        *,
        start: bool = True,
        token: str | None = None,
        pace: Pace | None = None,
    ) -> Self:
        """A client of this machine's host for a data directory, which is started in the background if need be.

        Without `data_dir` it is `$ANTIPHON_DATA_DIR`, else `antiphon` in `$XDG_DATA_HOME` or `~/.local/share`. The host
        is looked for again at every new connection, so that the client outlives a restart; once gone it is not
        started anew.

        Raises:
            HostNotReached: None runs and `start` is false, or it could not be started.
        """
        host = LocalHost(None if data_dir is None else os.fspath(data_dir), token=token)
        if start:
            host.ensure()
        client = cls(host.address().url, pace=pace)
        client._transport = Transport(host.address, monotonic)
        return client

    def close(self) -> None:
        """Close the connections that are kept."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _run(self, plan: Plan[T]) -> T:
        return Driver(self._transport).run(plan)

    def _ask(self, exchange: Exchange[T]) -> T:
        return self._run(self._plans.ask(exchange))

    def _iterate(self, plan: Plan[T]) -> Generator[Any, None, T]:
        return Driver(self._transport).iterate(plan)

    # Messages

    def send(
        self,
        ref: str,
        text: str,
        *,
        when_busy: WhenBusy | None = None,
        wait_s: float | None = None,
        idempotency_key: str | None = None,
        files: Sequence[Json] = (),
        create: Json | None = None,
        sender: str | None = None,
        deadline_s: float | Json | None = None,
    ) -> Receipt:
        """Send a message and wait for its end.

        Args:
            ref: The session.
            text: The message.
            when_busy: What happens while a turn runs; None takes the session's or the host's choice.
            wait_s: How long to wait; None without limit, 0 not at all. The wait ends, never the turn: look at
                `Receipt.ended`.
            idempotency_key: Sending again under the same key reattaches to the same message. Without one the client
                makes one for this call, so that its own retries can't double the message.
            files: References such as `{"path": "/absolute/path"}`.
            create: What to start a session from, such as `{"agent": "echo"}`, when the key has none.
            sender: For whom it is sent; without one it is the name of the token.
            deadline_s: Seconds from its acceptance until it must have ended, or some of `{"waiting": …, "running": …,
                "total": …}`. Unlike `wait_s` this ends the message, as `failed` with `deadline_exceeded`.
        """
        draft = Draft(ref, text, idempotency_key or new_key(), when_busy, files, create, sender, deadline_s)
        return self._run(self._plans.send(draft, wait_s))

    def sending(
        self,
        ref: str,
        text: str,
        *,
        when_busy: WhenBusy | None = None,
        wait_s: float | None = None,
        idempotency_key: str | None = None,
        files: Sequence[Json] = (),
        create: Json | None = None,
        sender: str | None = None,
        deadline_s: float | Json | None = None,
    ) -> Iterator[Receipt]:
        """Like `send`, but iterates over the receipt as it stands, first when it is accepted; the last is the result.

        Whoever stops iterating knows the message's id and can go on with `waiting`.
        """
        draft = Draft(ref, text, idempotency_key or new_key(), when_busy, files, create, sender, deadline_s)
        last: Receipt = yield from self._iterate(self._plans.send(draft, wait_s))
        yield last

    def stream(
        self,
        ref: str,
        text: str,
        *,
        when_busy: WhenBusy | None = None,
        wait_s: float | None = None,
        idempotency_key: str | None = None,
        files: Sequence[Json] = (),
        create: Json | None = None,
        sender: str | None = None,
        deadline_s: float | Json | None = None,
    ) -> Iterator[Event | Receipt]:
        """Send a message and iterate over the events of its turn as they come; the last item is the receipt.

        A stream that breaks is taken up where it broke; no event comes twice. Where events can't be had any more, the
        receipt still comes, and its `reply` is the whole answer.
        """
        draft = Draft(ref, text, idempotency_key or new_key(), when_busy, files, create, sender, deadline_s)
        receipt: Receipt = yield from self._iterate(following.send_and_follow(self._plans, draft, wait_s))
        yield receipt

    def message(self, message_id: str) -> Receipt:
        """A message's receipt as it stands."""
        return self._ask(exchanges.message(message_id))

    def wait(self, message_id: str, timeout_s: float | None = None) -> Receipt:
        """The receipt of a message at its end, or as it stands when the time is up."""
        return self._run(self._plans.message_wait(message_id, timeout_s))

    def waiting(self, message_id: str, timeout_s: float | None = None) -> Iterator[Receipt]:
        """Like `wait`, but iterates over the receipt as it stands every now and then; the last item is the result."""
        last: Receipt = yield from self._iterate(self._plans.message_wait(message_id, timeout_s))
        yield last

    def message_edit(self, message_id: str, *, text: str | None = None, when_busy: WhenBusy | None = None) -> Receipt:
        """Change a message that waits."""
        return self._ask(exchanges.message_edit(message_id, given(text=text, when_busy=when_busy)))

    def message_withdraw(self, message_id: str) -> Receipt:
        """Take back a message that waits."""
        return self._ask(exchanges.message_withdraw(message_id))

    def message_cancel(self, message_id: str) -> Cancelled:
        """Cancel a message that waits or runs; a turn that answers it alone is cancelled, and waited for."""
        return self._ask(exchanges.message_cancel(message_id))

    # Sessions

    def session_start(
        self,
        agent: str,
        key: str | None = None,
        *,
        cwd: str | None = None,
        model: str | None = None,
        title: str | None = None,
        labels: dict[str, str] | None = None,
        when_busy: WhenBusy | None = None,
        settings: Json | None = None,
        if_exists: Literal["return"] | None = None,
    ) -> Session:
        """Start a session. A key that is in use raises `SessionExists`, or with `if_exists="return"` returns it."""
        body = given(
            agent=agent,
            key=key,
            cwd=cwd,
            model=model,
            title=title,
            labels=labels,
            when_busy=when_busy,
            settings=settings,
            if_exists=if_exists,
        )
        return self._ask(exchanges.session_start(body))

    def session(self, ref: str) -> Session:
        """A session as it is now."""
        return self._ask(exchanges.session(ref))

    def sessions(
        self,
        *,
        status: Sequence[str] = (),
        agent: str | None = None,
        labels: dict[str, str] | None = None,
        text: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Session]:
        """Sessions, newest activity first: all of them, or the first `limit`."""
        fields = exchanges.session_filter(status, agent, labels, text)
        return self._iterate(self._plans.pages(lambda more: exchanges.sessions(fields | more), limit))

    def session_patch(self, ref: str, changes: Json, *, if_match: int | None = None) -> Session:
        """Change metadata; `labels` and `settings` are merged, None removes an entry (RFC 7396).

        With `if_match`, a revision, a session that was changed since raises `PreconditionFailed`.
        """
        return self._ask(exchanges.session_patch(ref, changes, if_match))

    def session_stop(self, ref: str) -> Session:
        """Cancel what runs and refuse what comes, until `session_resume`. Returns once its agent is gone."""
        return self._ask(exchanges.session_act(ref, "stop"))

    def session_resume(self, ref: str) -> Session:
        """Bring back a stopped session, or wake a dormant one."""
        return self._ask(exchanges.session_act(ref, "resume"))

    def session_clear(self, ref: str) -> Session:
        """Begin a new transcript: cancels the running turn; what waits runs in the new generation."""
        return self._ask(exchanges.session_act(ref, "clear"))

    def session_delete(self, ref: str) -> None:
        """Forget a session; whatever runs or waits in it ends as cancelled."""
        self._ask(exchanges.session_delete(ref))

    def session_export(self, ref: str) -> Json:
        """A session with its whole journal, as one JSON object."""
        return self._ask(exchanges.session_export(ref))

    def session_import(self, exported: Json) -> Session:
        """A new session from an export, with new ids; it gets its key where that is free."""
        return self._ask(exchanges.session_import(exported))

    def session_fork(
        self, ref: str, *, turn_id: str | None = None, key: str | None = None, title: str | None = None
    ) -> Session:
        """A new session that begins where a turn of this one ended: the last completed one, unless another is named."""
        return self._ask(exchanges.session_fork(ref, given(turn_id=turn_id, key=key, title=title)))

    def queue(self, ref: str) -> list[Receipt]:
        """What waits, in order."""
        return self._ask(exchanges.queue(ref)).items

    def reorder(self, ref: str, order: Sequence[str]) -> list[Receipt]:
        """Reorder what waits; `order` names every waiting message once."""
        return self._ask(exchanges.reorder(ref, order)).items

    def queue_pause(self, ref: str) -> Session:
        """Let no turn start until `queue_continue`: what runs goes on, what comes waits."""
        return self._ask(exchanges.queue_act(ref, "pause"))

    def queue_continue(self, ref: str) -> Session:
        """Let what waits run again, in its order."""
        return self._ask(exchanges.queue_act(ref, "continue"))

    def queue_cancel(self, ref: str) -> list[Receipt]:
        """End all that waits as cancelled; returns the receipts of what did. The running turn goes on."""
        return self._ask(exchanges.queue_cancel(ref)).items

    def transcript(self, ref: str, *, generation: int | None = None) -> Iterator[Line]:
        """The conversation, oldest first; of the current generation unless another is named."""
        fields = given(generation=generation)
        return self._iterate(self._plans.pages(lambda more: exchanges.transcript(ref, fields | more), None))

    def turns(self, ref: str) -> Iterator[Turn]:
        """A session's turns, oldest first, of all generations."""
        return self._iterate(self._plans.pages(lambda more: exchanges.turns(ref, more), None))

    def events(
        self,
        ref: str | None = None,
        *,
        after: str | None = None,
        types: Sequence[str] = (),
        inline_max: int | None = None,
    ) -> Iterator[Event]:
        """Follow a session's events, or with None those of all sessions, for as long as there are any.

        A session's begin after the cursor `after`, else with its first; those of all sessions begin now. The stream is
        taken up again by itself; no cursor comes twice. What can't be served any more is told by a `gap`, then a
        `snapshot`. It ends after `session.deleted`.

        Args:
            ref: The session, or None for all.
            after: The cursor after which to begin.
            types: Only events of these types, such as `turn.text`, or families of them, such as `permission.*`.
            inline_max: An event with more bytes of `data` comes with `{"ref", "bytes"}` in its place; `event` has it.
        """
        wish = exchanges.Wish(types, inline_max)
        return self._iterate(following.follow(self._plans, ref, after, wish))

    def event(self, ref: str, sequence: int) -> Event:
        """One event of a session, whole, by its sequence."""
        return self._ask(exchanges.event(ref, sequence))

    def journal(self, ref: str, *, after: str | None = None, limit: int | None = None) -> Iterator[Event]:
        """A session's events up to now, after a cursor or from the first: all of them, or the first `limit`."""
        return self._iterate(self._plans.journal(ref, after, limit))

    # Turns, permissions, agents, tokens, the host

    def turn(self, turn_id: str) -> Turn:
        """A turn as it stands."""
        return self._ask(exchanges.turn(turn_id))

    def turn_wait(self, turn_id: str, timeout_s: float | None = None) -> Turn:
        """A turn at its end, or as it stands when the time is up."""
        return self._run(self._plans.turn_wait(turn_id, timeout_s))

    def turn_cancel(self, turn_id: str, *, queue: bool = False) -> Cancelled:
        """Cancel that turn and no other. Returns once its agent has stopped; raises `TurnEnded` if it had before.

        With `queue` all that waits in its session ends as cancelled, too.
        """
        return self._ask(exchanges.turn_cancel(turn_id, queue=queue))

    def permissions(self, *, state: str | None = "pending", ref: str | None = None) -> Iterator[Permission]:
        """The approval inbox: what agents ask, of one session or of all. `state=None` includes what is settled."""
        fields = given(state=state, session=ref)
        return self._iterate(self._plans.pages(lambda more: exchanges.permissions(fields | more), None))

    def permission_answer(
        self,
        permission_id: str,
        decision: Literal["allow", "deny"],
        *,
        option_id: str | None = None,
        note: str | None = None,
    ) -> Permission:
        """Answer what an agent asks. Raises `PermissionAnswered` where somebody, or the deadline, was faster."""
        body = given(decision=decision, option_id=option_id, note=note)
        return self._ask(exchanges.permission_answer(permission_id, body))

    def agents(self) -> list[Agent]:
        """The agents that the host knows, with what each lacks."""
        return self._ask(exchanges.agents()).items

    def tokens(self) -> list[Token]:
        """The tokens that were given out, without their secrets."""
        return self._ask(exchanges.tokens()).items

    def token_create(self, name: str, *, scope: Literal["full", "read"] = "full") -> Token:
        """Make a token; its secret, `token`, is told this once."""
        return self._ask(exchanges.token_create(name, scope))

    def token_revoke(self, token_id: str) -> None:
        """Revoke a token."""
        self._ask(exchanges.token_revoke(token_id))

    def sign_in_link(self) -> SignInLink:
        """Make a link that signs one browser in at this host's page, once, within a minute."""
        return self._ask(exchanges.sign_in_link())

    # Webhooks and schedules

    def message_webhook(self, message_id: str, url: str, *, secret: str | None = None) -> Webhook:
        """Send a message's receipt on to a URL once it has ended, be it long ago: for an answer whose caller left.

        Asking again for the same URL is the same request. `secret` is in the result only where one was made now.
        """
        return self._ask(exchanges.message_webhook(message_id, given(url=url, secret=secret)))

    def webhook_add(
        self,
        url: str,
        *,
        events: Sequence[str] | None = None,
        ref: str | None = None,
        secret: str | None = None,
        description: str | None = None,
    ) -> Webhook:
        """Have a URL told of ends: those of messages, unless `events` names others; of one session, or of all.

        The result holds the secret that deliveries are signed with, this once.
        """
        body = given(
            url=url, events=list(events) if events else None, session=ref, secret=secret, description=description
        )
        return self._ask(exchanges.webhook_add(body))

    def webhooks(self, *, message_id: str | None = None) -> Iterator[Webhook]:
        """Webhooks, oldest first; with `message_id` those that send that message's receipt on."""
        fields = given(message=message_id)
        return self._iterate(self._plans.pages(lambda more: exchanges.webhooks(fields | more), None))

    def webhook_enable(self, webhook_id: str) -> Webhook:
        """Tell a webhook of events again whose receiver had answered 410 Gone."""
        return self._ask(exchanges.webhook_act(webhook_id, "enable"))

    def webhook_remove(self, webhook_id: str) -> None:
        """Remove a webhook, with what was still to be told to it."""
        self._ask(exchanges.webhook_remove(webhook_id))

    def webhook_retry(self, webhook_id: str) -> int:
        """Try every dead delivery of a webhook again; how many."""
        return self._ask(exchanges.webhook_retry(webhook_id)).retried

    def deliveries(
        self,
        *,
        state: str | None = None,
        webhook_id: str | None = None,
        message_id: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Delivery]:
        """Deliveries, newest first: all of them, or the first `limit`; `state="dead"` is the dead-letter list."""
        fields = given(state=state, webhook=webhook_id, message=message_id)
        return self._iterate(self._plans.pages(lambda more: exchanges.deliveries(fields | more), limit))

    def delivery_retry(self, delivery_id: str) -> int:
        """Try a dead delivery again, to every webhook for which it is dead; how many. Else raises `DeliveryNotDead`."""
        return self._ask(exchanges.delivery_retry(delivery_id)).retried

    def schedule_add(
        self,
        ref: str,
        text: str,
        cron: str,
        *,
        time_zone: str | None = None,
        missed: Literal["skip", "run_once"] | None = None,
        overlap: Literal["skip", "queue_one"] | None = None,
        when_busy: WhenBusy | None = None,
        create: Json | None = None,
    ) -> Schedule:
        """Send a message again and again, at the times of a cron expression in a time zone (UTC unless one is named).

        Args:
            ref: The session.
            text: The message.
            cron: Five fields, such as `0 7 * * 1-5`.
            time_zone: The name of a zone, such as `Europe/Berlin`.
            missed: What becomes of runs at whose time no host was there.
            overlap: What becomes of a run that finds the message of the one before it not ended.
            when_busy: What happens while a turn runs; None takes the session's or the host's choice.
            create: What to start a session from, such as `{"agent": "echo"}`, when the key has none.
        """
        body = given(
            session=ref,
            text=text,
            cron=cron,
            time_zone=time_zone,
            missed=missed,
            overlap=overlap,
            when_busy=when_busy,
            create=create,
        )
        return self._ask(exchanges.schedule_add(body))

    def schedules(self, *, ref: str | None = None) -> Iterator[Schedule]:
        """Schedules, oldest first; of one session, as its schedules name it, or all."""
        fields = given(session=ref)
        return self._iterate(self._plans.pages(lambda more: exchanges.schedules(fields | more), None))

    def schedule(self, schedule_id: str) -> Schedule:
        """A schedule, with its next runs and what became of the last one."""
        return self._ask(exchanges.schedule(schedule_id))

    def schedule_pause(self, schedule_id: str) -> Schedule:
        """Send nothing until `schedule_resume`."""
        return self._ask(exchanges.schedule_act(schedule_id, "pause"))

    def schedule_resume(self, schedule_id: str) -> Schedule:
        """Go on with the next run; what passed meanwhile is not made up for."""
        return self._ask(exchanges.schedule_act(schedule_id, "resume"))

    def schedule_remove(self, schedule_id: str) -> None:
        """Remove a schedule; what it has sent goes on."""
        self._ask(exchanges.schedule_remove(schedule_id))

    # The host

    def status(self) -> HostStatus:
        """How the host is."""
        return self._ask(exchanges.status())

    def hosts(self) -> list[Peer]:
        """The hosts that share the store, this one among them."""
        return self._ask(exchanges.hosts()).items

    def host_drain(self, name: str) -> Peer:
        """Have others take over all sessions of the host of that name, until `host_undrain`."""
        return self._ask(exchanges.host_act(name, "drain"))

    def host_undrain(self, name: str) -> Peer:
        """Let a drained host own sessions again."""
        return self._ask(exchanges.host_act(name, "undrain"))

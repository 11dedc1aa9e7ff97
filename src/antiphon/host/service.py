"""What a host does for its doors: the one interface that HTTP, and anything else in process, is written against."""

from collections.abc import AsyncIterator
from typing import Any, Protocol

import msgspec

from antiphon.core.session import Deadline
from antiphon.host.views import (
    AgentView,
    Cancelled,
    EventView,
    HostView,
    Page,
    PermissionView,
    Receipt,
    SessionView,
    TurnView,
)


class NewSession(msgspec.Struct, frozen=True, kw_only=True):
    """What a session is made from. `key` has been checked (1 to 256 characters, no control characters, not `ses_…`)."""

    agent: str
    key: str | None = None
    cwd: str | None = None
    model: str | None = None
    title: str | None = None
    labels: dict[str, str] = {}
    when_busy: str | None = None
    settings: dict[str, Any] = {}


class NewMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What a person sends. `digest` is of the whole body and is compared when an idempotency key comes again."""

    text: str
    files: tuple[dict[str, Any], ...] = ()
    when_busy: str | None = None
    idempotency_key: str | None = None
    digest: str | None = None
    sender: str | None = None
    deadline: Deadline | None = None


class HostStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How the host is: for `status`, `/readyz` and `/metrics`."""

    version: str
    draining: bool
    store: str
    epoch: str
    agents_open: int
    max_agents: int
    sessions_awake: int
    sessions_owned: int = 0
    turns_running: int
    messages_queued: int
    viewers: int
    uptime_s: float


class Service(Protocol):
    """Everything that can be asked of a host.

    `ref` is a session's id (`ses_…`) or its key. Every method raises errors of `antiphon.core.errors` and no others.
    Cancelling a call ends the caller's waiting and nothing else: what was accepted stays accepted (P6).
    """

    async def create_session(self, new: NewSession, *, return_existing: bool) -> tuple[SessionView, bool]:
        """Make a session, or with `return_existing` find the one that has the key. True when it was made now.

        Raises:
            Exists, NotFound (agent), InvalidRequest (cwd), SessionLimit, Draining, StoreUnavailable.
        """
        ...

    async def session(self, ref: str) -> SessionView: ...

    async def sessions(
        self,
        *,
        statuses: tuple[str, ...] = (),
        agent: str | None = None,
        labels: tuple[tuple[str, str], ...] = (),
        text: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page:
        """A page of `SessionView`, newest activity first. A bad cursor is `InvalidRequest`."""
        ...

    async def patch_session(self, ref: str, changes: dict[str, Any], *, if_match: int | None) -> SessionView:
        """Merge metadata (RFC 7396 in `labels` and `settings`). `changes` has only known fields of the right types."""
        ...

    async def stop_session(self, ref: str) -> SessionView:
        """Cancel what runs, refuse what comes. Returns once the agent and all below it are gone."""
        ...

    async def resume_session(self, ref: str) -> SessionView: ...

    async def clear_session(self, ref: str) -> SessionView:
        """Raise the generation; cancel the running turn; what waits runs in the new generation."""
        ...

    async def delete_session(self, ref: str) -> None:
        """End everything as cancelled, tell whoever waits, forget the session. Returns once its agent is gone."""
        ...

    async def send(self, ref: str, message: NewMessage, *, create: NewSession | None = None) -> Receipt:
        """Accept a message; when this returns it is durable. With `create`, a missing session (by key) is made."""
        ...

    async def receipt(self, message_id: str) -> Receipt: ...

    async def wait_message(self, message_id: str, seconds: float | None) -> Receipt:
        """The receipt at the message's end, or as it stands when the time is up. Also when the session is deleted."""
        ...

    async def edit_message(self, message_id: str, *, text: str | None, when_busy: str | None) -> Receipt: ...

    async def withdraw_message(self, message_id: str) -> Receipt: ...

    async def reorder(self, ref: str, order: tuple[str, ...]) -> Page:
        """Reorder what waits; `order` names every waiting message once. Answers the queue's receipts in order."""
        ...

    async def pause_queue(self, ref: str) -> SessionView:
        """Let no turn start: what runs goes on, what comes waits. Also across restarts, until `continue_queue`."""
        ...

    async def continue_queue(self, ref: str) -> SessionView:
        """Let what waits run again, in its order."""
        ...

    async def cancel_queue(self, ref: str) -> Page:
        """End all that waits as cancelled, and answer its receipts. The running turn goes on."""
        ...

    async def cancel_message(self, message_id: str) -> Cancelled:
        """Cancel a message that waits or runs; one that was cancelled already is answered likewise.

        A turn that answers no other message is cancelled, and this returns once its agent has stopped, or was killed.
        One that does goes on for the others: then `confirmed` is false.

        Raises:
            NotEditable: It has ended, or was just handed to the agent as a steer.
        """
        ...

    async def queue(self, ref: str) -> Page:
        """The receipts of what waits, in order."""
        ...

    async def turns(self, ref: str, *, limit: int = 50, cursor: str | None = None) -> Page:
        """A page of `TurnView`, oldest first, of all generations."""
        ...

    async def turn(self, turn_id: str) -> TurnView: ...

    async def wait_turn(self, turn_id: str, seconds: float | None) -> TurnView: ...

    async def cancel_turn(self, turn_id: str, *, queue: bool = False) -> Cancelled:
        """Cancel that turn and no other; returns once its agent has stopped, or was killed.

        With `queue` all that waits in its session ends as cancelled in the same step.
        """
        ...

    async def transcript(
        self, ref: str, *, generation: int | None = None, limit: int = 200, cursor: str | None = None
    ) -> Page:
        """A page of `TranscriptItem`, oldest first; of the current generation unless another is named."""
        ...

    async def events(self, ref: str, *, after: str | None, limit: int) -> Page:
        """A page of `EventView`s after a cursor; a cursor that can't be served begins with `gap` and `snapshot`."""
        ...

    async def earlier_events(self, ref: str, *, before: str | None, limit: int) -> Page:
        """The newest `EventView`s before a cursor, or of all, in their order; `next_cursor` leads further back.

        A cursor of another journal is as none: the newest come, after `gap` and `snapshot`.
        """
        ...

    async def event(self, ref: str, sequence: int) -> EventView | None:
        """One event of a session; None when it has no such sequence."""
        ...

    def follow(self, ref: str, *, after: str | None) -> AsyncIterator[EventView]:
        """A session's events after a cursor, then as they happen; ends after `session.deleted`.

        Raises at the first step: NotFound, InvalidRequest (malformed cursor).
        """
        ...

    def follow_all(self, *, after: str | None) -> AsyncIterator[tuple[str, EventView]]:
        """The events of all sessions with the feed's own cursor, from now on or after a cursor of the feed."""
        ...

    async def feed(self, *, after: str | None, limit: int) -> Page:
        """A page of the feed; `next_cursor` is the feed's own."""
        ...

    def follow_message(self, message_id: str) -> AsyncIterator[EventView | Receipt]:
        """The events that concern a message and its turn, from its acceptance on; last of all its receipt."""
        ...

    async def permissions(
        self, *, state: str | None, ref: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page: ...

    async def permission(self, permission_id: str) -> PermissionView: ...

    async def answer_permission(
        self, permission_id: str, *, decision: str, option_id: str | None, note: str | None, by: str | None
    ) -> PermissionView: ...

    async def agents(self) -> tuple[AgentView, ...]: ...

    async def hosts(self) -> Page:
        """The hosts that share the store (`HostView`), by name; this one alone where it can't be shared."""
        ...

    async def drain_host(self, name: str, *, drained: bool) -> HostView:
        """Have the host of that name own no session from now on, or let it again.

        Raises:
            NotFound (host), InvalidRequest (nobody could take its sessions over), StoreUnavailable.
        """
        ...

    async def export_session(self, ref: str) -> dict[str, Any]:
        """The session with its whole journal as one JSON object (`{"antiphon_export": 1, …}`)."""
        ...

    async def import_session(self, document: dict[str, Any]) -> SessionView:
        """Make a new session, with new ids, from an export; its key is kept if it is free."""
        ...

    async def fork_session(self, ref: str, *, turn_id: str | None, key: str | None, title: str | None) -> SessionView:
        """Make a session that begins where a turn of another one ended: with its transcript until then, and an agent
        that remembers it. Without `turn_id` it is the last turn from which that can be done.

        Raises:
            ForkUnavailable, NotFound, Exists (key), SessionLimit, Draining, StoreUnavailable.
        """
        ...

    async def status(self) -> HostStatus: ...

"""Simulated clients: each does one thing after another, at its own pace, and notes what it was told."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from msgspec.structs import replace

from antiphon.core.errors import AntiphonError, Busy, Conflict, NotFound, StoreUnavailable
from antiphon.core.session import Deadline
from antiphon.host.host import Host
from antiphon.host.service import NewMessage, NewSession
from antiphon.host.views import Receipt
from antiphon.ports.peers import HOST_LABEL
from antiphon.testing.simulation.ledger import Attempt, Patch
from antiphon.testing.simulation.slot import AGENTS
from antiphon.testing.simulation.store import POLL_S
from antiphon.testing.simulation.wire import Gone, Life
from antiphon.testing.simulation.world import World

T = TypeVar("T")

MODES = (None, "queue", "queue", "refuse", "steer", "steer", "collect", "collect", "interrupt", "rollback")
BEHAVIOURS: tuple[dict[str, Any], ...] = (
    {"when_busy": "collect"},
    {"when_busy": "interrupt"},
    {"when_busy": None},
    {"settings": {"reset": {"idle_minutes": 0.005}}},
    {"settings": {"reset": None}},
    {"settings": {"on_crash": "resume"}},
)
DEADLINES = (
    *[None] * 8,
    Deadline(waiting_ms=300),
    Deadline(running_ms=300),
    Deadline(total_ms=1500),
    Deadline(waiting_ms=2000, running_ms=2000),
)
FOLLOW_S = 5.0
TRIES_MAX = 4
SLACK_S = 3.0
"""How much longer than it was asked to a wait may take: for its reads of a slow store."""
HEARD_S = 2 * POLL_S
"""How long it may be until a host hears of what another one wrote, when the notice is lost."""


class Client:
    """One client. Several of them share the sessions of a simulation."""

    def __init__(self, world: World, number: int, refs: tuple[str, ...]) -> None:
        self._world = world
        self._ledger = world.ledger
        self._dice = world.dice(f"client {number}")
        self._name = f"client{number}"
        self._refs = refs
        self._known: list[str] = []
        self._actions: tuple[tuple[int, Callable[[], Awaitable[None]]], ...] = (
            (30, self._send),
            (6, self._send_at_once),
            (10, self._wait),
            (10, self._cancel),
            (8, self._patch),
            (4, self._withdraw),
            (4, self._edit),
            (3, self._reorder),
            (2, self._pause),
            (3, self._go_on),
            (4, self._cancel_message),
            (1, self._cancel_queue),
            (5, self._answer),
            (4, self._look),
            (3, self._wait_turn),
            (2, self._clear),
            (2, self._stop),
            (2, self._resume),
            (1, self._delete),
            (1, self._copy),
            (2, self._create),
            (4, self._follow),
        )

    async def live(self, actions: int) -> None:
        """Do so many things."""
        weights = [weight for weight, _ in self._actions]
        for _ in range(actions):
            await asyncio.sleep(self._dice.choice((0.0, 0.0, 0.05, 0.4)) * self._dice.random())
            action = self._dice.choices(self._actions, weights)[0][1]
            try:
                await action()
            except Gone:
                continue
            except AntiphonError as error:
                self._world.trace.note(self._name, "refused", error.code)

    # Asking

    def _ref(self) -> str:
        return self._dice.choice(self._refs)

    async def _call(
        self, what: str, work: Callable[[Host], Coroutine[Any, Any, T]], *, served: list[Life] | None = None
    ) -> T:
        self._world.trace.note(self._name, what)
        return await self._world.call(what, work, served=served)

    async def _see(
        self, what: str, work: Callable[[Host], Coroutine[Any, Any, Receipt]], *, served: list[Life] | None = None
    ) -> Receipt:
        """Ask for a receipt: what had ended for anybody before that has ended, through whichever door."""
        began = self._world.clock.monotonic()
        receipt = await self._call(what, work, served=served)
        self._world.trace.note(self._name, "sees", receipt.id, receipt.state, receipt.turn_id or "-")
        self._ledger.receipts.append(receipt)
        if receipt.ended_at is not None:
            self._ledger.over.setdefault(receipt.id, self._world.clock.monotonic())
        elif self._ledger.over.get(receipt.id, began) < began:
            self._ledger.finding(f"P3: {receipt.id} was seen to have ended, and then it is {receipt.state}")
        if receipt.id not in self._known:
            self._known.append(receipt.id)
        return receipt

    def _message(self) -> str:
        """A message that it, or somebody, knows of; lately sent ones more often."""
        known = self._known[-3:] or [receipt.id for receipt in self._ledger.receipts[-5:]]
        if not known:
            raise Gone("it knows of none")
        return self._dice.choice(known)

    # Messages

    async def _send(self) -> None:
        token, ref, mode = self._ledger.token(), self._ref(), self._dice.choice(MODES)
        key = f"key-{token}" if self._dice.random() < 0.5 else None
        receipt = await self._tries(token, ref, mode, key)
        if receipt and self._dice.random() < 0.5:
            await self._wait_on(receipt.id)

    async def _send_at_once(self) -> None:
        """The same message several times at once, as impatient clients do; perhaps another one under its key."""
        token, ref, mode = self._ledger.token(), self._ref(), self._dice.choice(MODES)
        tokens = [token] * self._dice.randint(2, 3)
        if self._dice.random() < 0.3:
            tokens.append(self._ledger.token())
        tries = [self._tries(each, ref, mode, f"key-{token}") for each in tokens]
        await asyncio.gather(*tries)

    async def _tries(self, token: str, ref: str, mode: str | None, key: str | None) -> Receipt | None:
        """Send, and where there is a key send again until there is an answer."""
        for _ in range(TRIES_MAX if key else 1):
            attempt = Attempt(token=token, ref=ref, key=key, when_busy=mode)
            began = self._world.clock.monotonic()
            self._ledger.attempts.append(attempt)
            try:
                receipt = await self._try(attempt)
            except Gone:
                await asyncio.sleep(0.3 * self._dice.random())
            except AntiphonError as error:
                doubtful = bool(error.ids.get("in_doubt"))
                attempt.outcome, attempt.code = ("unknown" if doubtful else "refused"), error.code
                self._world.trace.note(self._name, "refused", error.code)
                self._check_refusal(error, began)
                if not isinstance(error, StoreUnavailable | Conflict):
                    return None
            else:
                attempt.outcome, attempt.receipt = "accepted", receipt
                return receipt
        return None

    def _check_refusal(self, error: AntiphonError, began: float) -> None:
        """Nothing is refused for a turn, or a message, that was over before it was sent."""
        if not isinstance(error, Busy):
            return
        for name in ("turn_id", "message_id"):
            held_by = error.ids["holder"][name]
            story = self._world.shelf.chronicle.stories[error.ids["session_id"]]
            if story.over.get(held_by, began) < began:
                self._ledger.finding(f"P5: a message was refused for {held_by}, which was over before it was sent")

    async def _try(self, attempt: Attempt) -> Receipt:
        text, mode, key, ref = attempt.token, attempt.when_busy, attempt.key, attempt.ref
        message = NewMessage(
            text=text,
            when_busy=mode,
            idempotency_key=key,
            digest=f"{text}/{mode}",
            sender=self._name,
            deadline=self._dice.choice(DEADLINES),
        )
        create = self._new(ref)
        what = f"send {text} {mode} {key or ''} to {ref}"
        return await self._see(what, lambda host: host.send(ref, message, create=create))

    async def _wait(self) -> None:
        await self._wait_for(self._message())

    async def _wait_for(self, message_id: str) -> None:
        seconds = self._dice.choice((0.0, 0.3, 2.0, 20.0))
        began, served, what = self._world.clock.monotonic(), list[Life](), f"wait {message_id} {seconds}"
        receipt = await self._see(what, lambda host: host.wait_message(message_id, seconds), served=served)
        story = self._world.shelf.chronicle.of_message(message_id)
        readable = story is not None and story.session.id not in self._world.shelf.damaged
        over_at = story.over.get(message_id) if story and readable else None
        if late := self._waits_badly(began, seconds, served[0], over_at, ended=receipt.ended_at is not None):
            self._ledger.finding(f"P3: a wait of {seconds} s for {message_id} {late}: {receipt.state}")

    def _waits_badly(
        self, began: float, seconds: float, life: Life, over_at: float | None, *, ended: bool
    ) -> str | None:
        """What is wrong with how long a wait took: it may end early only if something did, and soon after that."""
        now = self._world.clock.monotonic()
        took = now - began
        if life.was_ill(began):
            return None
        if took > seconds + SLACK_S or (over_at is not None and now - max(over_at, began) > HEARD_S + SLACK_S):
            return f"takes {took:.1f} s"
        early = not ended and took < seconds - 0.001 and not self._world.leaves(life)
        return f"ends after {took:.1f} s" if early else None

    async def _follow(self) -> None:
        """Follow a message to its end: what it was told of its answer is its answer."""
        message_id, texts = self._message(), list[str]()

        async def follow(host: Host) -> Receipt:
            receipt: Receipt | None = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FOLLOW_S), contextlib.aclosing(host.follow_message(message_id)) as items:
                    async for item in items:
                        if isinstance(item, Receipt):
                            receipt = item
                        elif item.type == "turn.started":
                            texts.clear()
                        elif item.type == "turn.text":
                            texts.append(item.data["text"])
            return receipt or await host.receipt(message_id)

        receipt = await self._see(f"follow {message_id}", follow)
        told = "".join(texts)
        whole = receipt.error is None or receipt.error.code != "deadline_exceeded"
        if (
            receipt.ended_at is not None
            and receipt.delivered_as == "turn"
            and whole
            and told not in ("", receipt.reply or "")
        ):
            self._ledger.finding(f"P4: a follower of {message_id} was told {told!r}, the reply is {receipt.reply!r}")

    async def _wait_on(self, message_id: str) -> None:
        """Wait for what was just accepted: it is there, also when the deletion of its session ends it just now."""
        life, shared = self._world.life, self._world.shared
        try:
            await self._wait_for(message_id)
        except NotFound:
            if (shared or self._world.life is life) and not self._went_with_its_session(message_id):
                self._ledger.finding(
                    f"P3: {message_id} was accepted, and who waits for it is told that it is not there"
                )

    def _went_with_its_session(self, message_id: str) -> bool:
        """Whether it had come to its end before its session was deleted, whose receipts are gone with it."""
        story = self._world.shelf.chronicle.of_message(message_id)
        if story is None or story.over_at is None:
            return False
        if self._world.shared:  # where it was deleted through another door, its receipts are gone
            return True
        last = [entry.message_id for entry in story.commits[-1].entries if entry.type == "message.ended"]
        return message_id not in last

    async def _look(self) -> None:
        message_id, ref = self._message(), self._ref()
        await self._see("receipt", lambda host: host.receipt(message_id))
        await self._call("transcript", lambda host: host.transcript(ref))
        await self._call("queue", lambda host: host.queue(ref))
        await self._call("status", lambda host: host.status())

    async def _withdraw(self) -> None:
        message_id = self._message()
        receipt = await self._see(f"withdraw {message_id}", lambda host: host.withdraw_message(message_id))
        if receipt.state != "withdrawn":
            self._ledger.finding(f"P3: {message_id} was withdrawn and is {receipt.state}")

    async def _edit(self) -> None:
        message_id = self._message()
        mode = self._dice.choice((None, None, "queue", "collect", "steer", "interrupt", "rollback"))
        text = self._ledger.token()
        self._ledger.edits[text] = message_id
        what = f"edit {message_id} {text} {mode}"
        await self._see(what, lambda host: host.edit_message(message_id, text=text, when_busy=mode))

    async def _reorder(self) -> None:
        ref = self._ref()
        waiting = [receipt.id for receipt in (await self._call("queue", lambda host: host.queue(ref))).items]
        self._dice.shuffle(waiting)
        if len(waiting) > 1:
            await self._call(f"reorder {ref}", lambda host: host.reorder(ref, tuple(waiting)))

    async def _pause(self) -> None:
        await self._want("pause", lambda host, ref: host.pause_queue(ref))

    async def _go_on(self) -> None:
        await self._want("continue", lambda host, ref: host.continue_queue(ref))

    async def _cancel_message(self) -> None:
        message_id = self._message()
        self._ledger.message_cancels.add(message_id)
        done = await self._call(f"cancel {message_id}", lambda host: host.cancel_message(message_id))
        if done.confirmed or done.message_ids:
            self._ledger.message_confirmed.add(message_id)

    async def _cancel_queue(self) -> None:
        await self._want("cancel queue", lambda host, ref: host.cancel_queue(ref))

    # Turns

    async def _turn(self) -> str:
        ref = self._ref()
        view = await self._call(f"session {ref}", lambda host: host.session(ref))
        ended = [receipt.turn_id for receipt in self._ledger.receipts[-8:] if receipt.turn_id]
        turn_id = view.turn_id or (self._dice.choice(ended) if ended else None)
        if turn_id is None:
            raise Gone("nothing runs")
        return turn_id

    async def _cancel(self) -> None:
        turn_id = await self._turn()
        self._ledger.cancels.add(turn_id)
        queue = self._dice.random() < 0.2
        done = await self._call(f"cancel {turn_id} {queue}", lambda host: host.cancel_turn(turn_id, queue=queue))
        self._world.trace.note(self._name, "cancelled", turn_id, done.state, done.confirmed)
        if not done.confirmed:
            return
        self._ledger.confirmed[turn_id] = done.state
        if self._world.machine.works_on(turn_id):
            self._ledger.finding(f"P9: the cancel of {turn_id} is confirmed while its agent works on it")

    async def _wait_turn(self) -> None:
        turn_id, seconds = await self._turn(), self._dice.choice((0.0, 2.0, 20.0))
        began, served, what = self._world.clock.monotonic(), list[Life](), f"wait {turn_id} {seconds}"
        turn = await self._call(what, lambda host: host.wait_turn(turn_id, seconds), served=served)
        story = self._world.shelf.chronicle.of_turn(turn_id)
        over_at = story.over.get(turn_id) if story else None
        if late := self._waits_badly(began, seconds, served[0], over_at, ended=turn.ended_at is not None):
            self._ledger.finding(f"P3: a wait of {seconds} s for {turn_id} {late}: {turn.state}")

    async def _answer(self) -> None:
        asked = await self._call("permissions", lambda host: host.permissions(state="pending"))
        if not asked.items:
            return
        permission_id = self._dice.choice(asked.items).id
        decision = self._dice.choice(("allow", "deny"))
        await self._call(
            f"answer {permission_id}",
            lambda host: host.answer_permission(
                permission_id, decision=decision, option_id=None, note=None, by=self._name
            ),
        )

    # Sessions

    def _new(self, ref: str | None = None) -> NewSession:
        """A session to be made; seldom one that is bound to one of several hosts."""
        agent, slots = self._dice.choice(tuple(AGENTS)), self._world.slots
        new = NewSession(agent=agent, key=ref or self._ref())
        if not self._world.shared or self._dice.random() < 0.8:
            return new
        return replace(new, labels={HOST_LABEL: self._dice.choice(slots).name})

    async def _create(self) -> None:
        new = self._new()
        existing = self._dice.random() < 0.5
        view, made = await self._call(
            f"create {new.key} {existing}", lambda host: host.create_session(new, return_existing=existing)
        )
        self._world.trace.note(self._name, "has", view.id, made)

    async def _patch(self) -> None:
        if self._dice.random() < 0.2:
            await self._patch_behaviour()
            return
        ref, token, changes = self._ref(), self._ledger.token(), dict[str, Any]()
        field = self._dice.choice(("title", "label", "setting", "model"))
        changes = {"title": {"title": token}, "model": {"model": token}, "label": {"labels": {self._name: token}}}.get(
            field, {"settings": {self._name: token}}
        )
        strict = self._dice.random() < 0.3
        revision = (await self._call("session", lambda host: host.session(ref))).revision if strict else None
        patch = Patch(value=token, changes=changes)
        self._ledger.patches.append(patch)
        try:
            await self._call(f"patch {ref} {field}", lambda host: host.patch_session(ref, changes, if_match=revision))
        except AntiphonError as error:
            patch.outcome = "unknown" if error.ids.get("in_doubt") else "refused"
            raise
        patch.outcome = "accepted"

    async def _patch_behaviour(self) -> None:
        """Change how the session behaves from now on."""
        ref = self._ref()
        changes = self._dice.choice(BEHAVIOURS)
        await self._call(f"patch {ref} {changes}", lambda host: host.patch_session(ref, changes, if_match=None))

    async def _want(self, what: str, work: Callable[[Host, str], Coroutine[Any, Any, object]]) -> None:
        ref = self._ref()
        self._ledger.wanted.add(what)
        await self._call(f"{what} {ref}", lambda host: work(host, ref))

    async def _clear(self) -> None:
        ref = self._ref()
        self._ledger.wanted.add("clear")
        try:
            view = await self._call(f"clear {ref}", lambda host: host.clear_session(ref))
        except Gone:
            self._ledger.clears_unknown += 1
            raise
        except AntiphonError as error:
            self._ledger.clears_unknown += bool(error.ids.get("in_doubt"))
            raise
        self._ledger.clears[view.id] = self._ledger.clears.get(view.id, 0) + 1

    async def _stop(self) -> None:
        await self._want("stop", lambda host, ref: host.stop_session(ref))

    async def _resume(self) -> None:
        await self._want("resume", lambda host, ref: host.resume_session(ref))

    async def _delete(self) -> None:
        await self._want("delete", lambda host, ref: host.delete_session(ref))

    async def _copy(self) -> None:
        ref = self._ref()
        exported = await self._call(f"export {ref}", lambda host: host.export_session(ref))
        await self._call(f"import {ref}", lambda host: host.import_session(exported))

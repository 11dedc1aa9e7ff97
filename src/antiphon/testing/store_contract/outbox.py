"""The outbox: webhooks, and what is to be told to them."""

from typing import Any, Protocol

import pytest
from msgspec.structs import replace

from antiphon.core import events as e
from antiphon.core.session import Message
from antiphon.ports.outbox import Delivery, Outbox, TooMany, Webhook
from antiphon.ports.store import Commit, SequenceMoved, Store
from antiphon.testing.drafts import Draft
from antiphon.testing.store_contract.suite import Suite, pages

NOW = 1_700_000_000_000
SECRET, OTHER = "whsec_" + "A" * 32, "whsec_" + "B" * 32


class WithOutbox(Store, Protocol):
    """A store with an outbox."""

    @property
    def outbox(self) -> Outbox: ...


def hook(id: str, **fields: Any) -> Webhook:
    """A webhook for every end of a message, but for these fields."""
    made = Webhook(
        id=id,
        url=f"https://example.com/{id}",
        target="https://example.com:443",
        secret=SECRET,
        events=("message.ended",),
        created_at=1,
    )
    return replace(made, **fields)


def end(draft: Draft, message: Message, **fields: Any) -> Commit:
    """A commit that ends a message."""
    ended = replace(message, **({"state": "answered", "ended_at": 2000} | fields))
    return draft.step(e.MessageEnded(message_id=message.id, state=ended.state), messages=(ended,))


async def told(store: WithOutbox, **which: Any) -> list[Delivery]:
    """All deliveries, newest first."""
    asked: dict[str, Any] = {"webhook_id": None, "message_id": None, "state": None} | which
    return await pages(lambda cursor: store.outbox.deliveries(cursor=cursor, limit=2, **asked))


async def taken(store: WithOutbox, now: int, *, host: str = "h", limit: int = 9) -> list[str]:
    """The ids of what a host can take now, with claims for a second."""
    due = await store.outbox.due(now)
    ids: list[str] = []
    for target in due.targets:
        ids += [each.id for each in await store.outbox.take(target, host=host, now=now, until=now + 1000, limit=limit)]
    return ids


class OutboxContract(Suite):
    """Webhooks, and the deliveries that commits make for them."""

    async def ended(self, store: WithOutbox, draft: Draft, *ids: str) -> None:
        """Have a session's messages accepted and answered."""
        for id in ids:
            message = draft.message(id)
            await self.wrote(store, draft.accept(id), end(draft, message))

    async def test_a_commit_that_ends_a_message_makes_one_delivery_for_each_webhook_that_wants_it(
        self, store: WithOutbox
    ) -> None:
        mine, other = Draft("ses_1", key="k"), Draft("ses_2")
        await self.wrote(store, mine.create(), other.create())
        await self.ended(store, mine, "msg_before")
        everything = ("message.ended", "session.stopped", "session.deleted")
        for webhook in (
            hook("hook_all"),
            hook("hook_other", session_id="ses_2"),
            hook("hook_mine", session_id="ses_1", events=everything),
            hook("hook_sessions", events=("session.deleted",)),
            hook("hook_off", disabled_at=5),
        ):
            assert await store.outbox.add(webhook, limit=9, rewrite_secret=False) == webhook
        store.outbox.stirred.clear()
        await self.wrote(store, mine.accept("msg_1"))
        assert not store.outbox.stirred.is_set()
        message = mine.message("msg_1", sequence=mine.session.sequence)
        await self.wrote(store, end(mine, message))
        assert store.outbox.stirred.is_set()
        found = await told(store)
        assert {(each.webhook_id, each.id) for each in found} == {("hook_all", "evt_1"), ("hook_mine", "evt_1")}
        assert found[0].subject["state"] == "answered"
        assert (found[0].type, found[0].at, found[0].since, found[0].next_at) == ("message.ended", 2000, 2000, 2000)
        assert (found[0].session_id, found[0].message_id, found[0].state) == ("ses_1", "msg_1", "pending")

        await self.wrote(store, mine.step(e.SessionStopped(), lifecycle="stopped"))
        await self.wrote(store, mine.delete(), other.delete())
        kinds = {(each.webhook_id, each.type, each.session_id) for each in await told(store) if each.message_id is None}
        assert kinds == {
            ("hook_mine", "session.stopped", "ses_1"),
            ("hook_mine", "session.deleted", "ses_1"),
            ("hook_sessions", "session.deleted", "ses_1"),
            ("hook_sessions", "session.deleted", "ses_2"),
        }
        [first] = [each for each in await told(store, webhook_id="hook_mine") if each.type == "session.stopped"]
        assert first.subject["key"] == "k"
        assert first.id.startswith("evt_1_")

    async def test_a_commit_that_is_refused_makes_no_delivery(self, store: WithOutbox) -> None:
        draft = Draft("ses_1")
        await self.wrote(store, draft.create(), draft.accept("msg_1"))
        await store.outbox.add(hook("hook_1"), limit=9, rewrite_secret=False)
        stale = end(draft, draft.message("msg_1"))
        draft.session = replace(draft.session, sequence=stale.expected)
        await self.wrote(store, draft.log())
        with pytest.raises(SequenceMoved):
            await store.commit(stale)
        assert await told(store) == []

    async def test_what_an_import_brings_along_has_happened_elsewhere(self, store: WithOutbox) -> None:
        await store.outbox.add(hook("hook_1"), limit=9, rewrite_secret=False)
        draft = Draft("ses_1")
        message = draft.message("msg_1", state="answered", ended_at=5)
        created = e.SessionCreated(agent="echo")
        await self.wrote(
            store, draft.step(created, e.MessageEnded(message_id="msg_1", state="answered"), messages=(message,))
        )
        assert await told(store) == []

    async def test_a_webhook_for_a_message_is_told_once_whenever_it_came(self, store: WithOutbox) -> None:
        draft = Draft("ses_1")
        await self.wrote(store, draft.create())
        await self.ended(store, draft, "msg_1")
        of = {"message_id": "msg_1", "session_id": "ses_1", "url": "https://example.com/x"}
        first = hook("hook_1", **of)
        assert await store.outbox.add(first, limit=0, rewrite_secret=False) == first
        again = hook("hook_2", secret=OTHER, **of)
        assert await store.outbox.add(again, limit=0, rewrite_secret=False) == first
        assert await store.outbox.add(again, limit=0, rewrite_secret=True) == replace(first, secret=OTHER)
        early = hook("hook_3", message_id="msg_2", session_id="ses_1")
        assert await store.outbox.add(early, limit=0, rewrite_secret=False) is None
        message = draft.message("msg_2")
        await self.wrote(store, draft.accept("msg_2"))
        assert await store.outbox.add(early, limit=0, rewrite_secret=False) == early
        assert [each.webhook_id for each in await told(store)] == ["hook_1"]
        await self.wrote(store, end(draft, message))
        assert [each.webhook_id for each in await told(store)] == ["hook_3", "hook_1"]
        assert [each.webhook_id for each in await told(store, message_id="msg_1")] == ["hook_1"]
        assert await store.outbox.reconcile() == 0
        listed = await store.outbox.webhooks(message_id="msg_2", cursor=None, limit=9)
        assert listed.items == (early,)
        assert (await store.outbox.webhooks(message_id=None, cursor=None, limit=9)).items == ()

    async def test_webhooks_are_listed_oldest_first_and_only_so_many_fit(self, store: WithOutbox) -> None:
        kept = [hook(f"hook_{number}", description=f"n. {number}") for number in (3, 1, 2)]
        for webhook in kept:
            await store.outbox.add(webhook, limit=3, rewrite_secret=False)
        with pytest.raises(TooMany):
            await store.outbox.add(hook("hook_4"), limit=3, rewrite_secret=False)
        for limit in (1, 2, 9):
            found = await pages(
                lambda cursor, limit=limit: store.outbox.webhooks(message_id=None, cursor=cursor, limit=limit)
            )
            assert found == kept
        assert await store.outbox.webhook("hook_2") == kept[2]
        assert await store.outbox.webhook("hook_9") is None
        with pytest.raises(ValueError, match=r"\w"):
            await store.outbox.webhooks(message_id=None, cursor="nonsense", limit=9)
        with pytest.raises(ValueError, match=r"\w"):
            await store.outbox.deliveries(webhook_id=None, message_id=None, state=None, cursor="nonsense", limit=9)

    async def test_what_is_claimed_is_given_to_nobody_else_until_the_claim_runs_out(self, store: WithOutbox) -> None:
        draft = Draft("ses_1")
        await store.outbox.add(hook("hook_1"), limit=9, rewrite_secret=False)
        await self.wrote(store, draft.create())
        await self.ended(store, draft, "msg_1", "msg_2", "msg_3")
        assert (await store.outbox.due(1999)).targets == ()
        assert (await store.outbox.due(1999)).next_at == 2000
        assert await taken(store, NOW, host="a", limit=2) == ["evt_1", "evt_2"]
        assert (await store.outbox.due(NOW)).targets == ("https://example.com:443",)
        assert await taken(store, NOW, host="b") == ["evt_3"]
        due = await store.outbox.due(NOW)
        assert (due.targets, due.next_at) == ((), NOW + 1000)
        await store.outbox.release("b")
        assert await taken(store, NOW, host="c") == ["evt_3"]
        assert await taken(store, NOW + 1000, host="c") == ["evt_1", "evt_2", "evt_3"]
        await store.outbox.release(None)
        assert await taken(store, NOW + 1000, host="c") == ["evt_1", "evt_2", "evt_3"]

    async def test_targets_are_told_of_by_how_long_they_have_waited(self, store: WithOutbox) -> None:
        draft = Draft("ses_1")
        await self.wrote(store, draft.create())
        for number, at in ((1, 300), (2, 100), (3, 200)):
            of = {"message_id": f"msg_{number}", "session_id": "ses_1", "target": f"https://t{number}:443"}
            await self.wrote(store, draft.accept(f"msg_{number}"))
            await store.outbox.add(hook(f"hook_{number}", **of), limit=9, rewrite_secret=False)
            await self.wrote(store, end(draft, draft.message(f"msg_{number}"), ended_at=at))
        assert (await store.outbox.due(NOW)).targets == ("https://t2:443", "https://t3:443", "https://t1:443")

    async def test_how_a_delivery_stands_is_kept_and_what_is_settled_stays_so(self, store: WithOutbox) -> None:
        draft = Draft("ses_1")
        await store.outbox.add(hook("hook_1"), limit=9, rewrite_secret=False)
        await self.wrote(store, draft.create())
        await self.ended(store, draft, "msg_1", "msg_2")
        [second, first] = await told(store)
        failed = replace(first, attempts=1, next_at=NOW + 50, status=500, error="500")
        await taken(store, NOW)
        await store.outbox.settle(failed)
        assert (await told(store))[1] == failed
        delivered = replace(second, state="delivered", attempts=1, settled_at=NOW, status=204)
        await store.outbox.settle(delivered)
        await store.outbox.settle(replace(second, attempts=7, next_at=NOW))
        assert (await told(store, state="delivered")) == [delivered]
        assert (await store.outbox.due(NOW + 49)).next_at == NOW + 50
        assert await taken(store, NOW + 50) == ["evt_1"]
        assert await store.outbox.counts() == {"pending": 1, "dead": 0}

    async def test_dead_deliveries_can_be_tried_again_under_their_old_ids(self, store: WithOutbox) -> None:
        draft = Draft("ses_1")
        for number in (1, 2):
            await store.outbox.add(hook(f"hook_{number}"), limit=9, rewrite_secret=False)
        await self.wrote(store, draft.create())
        await self.ended(store, draft, "msg_1", "msg_2")
        for delivery in await told(store):
            await store.outbox.settle(replace(delivery, state="dead", attempts=30, settled_at=NOW, error="…"))
        assert await store.outbox.counts() == {"pending": 0, "dead": 4}
        assert await store.outbox.retry(webhook_id="hook_1", delivery_id="evt_2", now=NOW) == 1
        assert await store.outbox.retry(webhook_id=None, delivery_id="evt_1", now=NOW) == 2
        assert await store.outbox.retry(webhook_id="hook_1", delivery_id=None, now=NOW) == 0
        assert sorted(await taken(store, NOW)) == ["evt_1", "evt_1", "evt_2"]
        [revived] = await told(store, webhook_id="hook_1", state="pending", message_id="msg_2")
        assert (revived.attempts, revived.since, revived.next_at, revived.settled_at) == (0, NOW, NOW, None)

    async def test_a_disabled_webhook_is_told_nothing_and_an_enabled_one_what_is_new(self, store: WithOutbox) -> None:
        draft = Draft("ses_1")
        await store.outbox.add(hook("hook_1"), limit=9, rewrite_secret=False)
        await self.wrote(store, draft.create())
        await self.ended(store, draft, "msg_1")
        await store.outbox.disable("hook_1", because="gone", now=NOW)
        kept = await store.outbox.webhook("hook_1")
        assert kept is not None
        assert (kept.disabled_at, kept.disabled_because) == (NOW, "gone")
        await self.ended(store, draft, "msg_2")
        [dead] = await told(store)
        assert (dead.id, dead.state, dead.error, dead.settled_at) == ("evt_1", "dead", "gone", NOW)
        assert await store.outbox.enable("hook_1")
        assert not await store.outbox.enable("hook_9")
        await self.ended(store, draft, "msg_3")
        assert [each.id for each in await told(store)] == ["evt_3", "evt_1"]

    async def test_a_removed_webhook_is_gone_with_its_deliveries(self, store: WithOutbox) -> None:
        draft = Draft("ses_1")
        for number in (1, 2):
            await store.outbox.add(hook(f"hook_{number}"), limit=9, rewrite_secret=False)
        await self.wrote(store, draft.create())
        await self.ended(store, draft, "msg_1")
        assert await store.outbox.remove("hook_1")
        assert not await store.outbox.remove("hook_1")
        assert [each.webhook_id for each in await told(store)] == ["hook_2"]
        await self.ended(store, draft, "msg_2")
        assert [each.webhook_id for each in await told(store)] == ["hook_2", "hook_2"]

    async def test_what_was_settled_long_ago_is_tidied_away_and_never_told_again(self, store: WithOutbox) -> None:
        draft, gone = Draft("ses_1"), Draft("ses_2")
        await self.wrote(store, draft.create(), gone.create())
        await self.ended(store, draft, "msg_1", "msg_2")
        for number in (1, 2):
            of = {"message_id": f"msg_{number}", "session_id": "ses_1"}
            await store.outbox.add(hook(f"hook_{number}", **of), limit=9, rewrite_secret=False)
        await store.outbox.add(hook("hook_3", session_id="ses_2"), limit=9, rewrite_secret=False)
        await self.wrote(store, gone.delete())
        [young, old] = await told(store)
        await store.outbox.settle(replace(old, state="delivered", attempts=1, settled_at=NOW - 1))
        await store.outbox.settle(replace(young, state="dead", attempts=1, settled_at=NOW))
        assert await store.outbox.tidy(before=NOW) == 3
        assert [each.id for each in await told(store)] == [young.id]
        assert await store.outbox.webhook("hook_1") is None
        assert await store.outbox.webhook("hook_2") is not None
        assert await store.outbox.webhook("hook_3") is None
        assert await store.outbox.reconcile() == 0
        assert [each.id for each in await told(store)] == [young.id]

    async def test_webhooks_and_deliveries_outlive_a_restart(self, store: WithOutbox) -> None:
        draft = Draft("ses_1")
        await store.outbox.add(hook("hook_1"), limit=9, rewrite_secret=False)
        await self.wrote(store, draft.create())
        await self.ended(store, draft, "msg_1")
        before = await told(store)
        again: Any = await self.reopen(store)
        try:
            assert await told(again) == before
            await self.ended(again, draft, "msg_2")
            assert [each.id for each in await told(again)] == ["evt_2", "evt_1"]
        finally:
            await again.close()

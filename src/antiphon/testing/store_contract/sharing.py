"""Several hosts over one store: one owner a session, who lives, and what is left behind."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, TypeVar

import pytest
from msgspec.structs import replace

from antiphon.ports.peers import Bulletin, Peer, Peers
from antiphon.ports.store import Fenced, Notice, Store
from antiphon.testing.drafts import Draft

PATIENCE_S = 30.0
T = TypeVar("T")


class SharedStore(Store, Protocol):
    """A store that several hosts share."""

    @property
    def peers(self) -> Peers | None: ...


class Sharing(Protocol):
    """Two stores on the same data, empty at first, and what may happen to their hosts.

    Attributes:
        one, two: The stores.
    """

    one: SharedStore
    two: SharedStore

    async def die(self, store: SharedStore) -> None:
        """End the host of this store: nothing comes from it any more, and its connections are gone."""
        ...

    async def cut(self, store: SharedStore) -> None:
        """Break the connection that holds this store's claims. It comes back as soon as it can."""
        ...

    async def pass_time(self) -> None:
        """Let some time pass, much less than the grace: in a store with a clock of its own, by that clock."""
        ...


async def until(sharing: Sharing, look: Callable[[], Awaitable[T | None]]) -> T:
    """What a look finds, as soon as it finds something."""
    async with asyncio.timeout(PATIENCE_S):
        while not (found := await look()):
            await sharing.pass_time()
    return found


def peers(store: SharedStore) -> Peers:
    """The peers of a store that has some."""
    assert store.peers is not None
    return store.peers


def bulletin(name: str, **fields: Any) -> Bulletin:
    """What a host of this name tells."""
    return Bulletin(name=name, url=f"http://{name}", version="1", max_agents=2, **fields)


def unsettled(id: str, **fields: Any) -> Draft:
    """A session that somebody has to look after."""
    draft = Draft(id, **fields)
    draft.session = replace(draft.session, inbox=(draft.message("msg_1"),))
    return draft


async def claimed(store: Store, session_id: str, host: str) -> int:
    """The fence of a claim that succeeds."""
    fence = await store.claim(session_id, host)
    assert fence is not None
    return fence


async def told(notices: AsyncIterator[Notice], wanted: dict[str, int]) -> set[str]:
    """Of which sessions notices tell until each wanted one has reached its sequence."""
    reached: dict[str, int] = {}
    async with asyncio.timeout(PATIENCE_S):
        async for notice in notices:
            reached[notice.session_id] = max(notice.sequence, reached.get(notice.session_id, 0))
            if all(reached.get(id, 0) >= sequence for id, sequence in wanted.items()):
                return set(reached)
    raise AssertionError(f"the notices ended with {reached}")


class SharedStoreContract:
    """What a store must do that several hosts share. `sharing` is a fixture."""

    # Claims

    async def test_a_session_has_one_owner_and_the_next_one_fences_the_last(self, sharing: Sharing) -> None:
        one, two, draft = sharing.one, sharing.two, Draft("ses_1")
        await one.commit(draft.create())
        first = await claimed(one, "ses_1", "one")
        assert await two.claim("ses_1", "two") is None
        assert await two.claim("ses_2", "two") is not None, "another session is free"
        again = await claimed(one, "ses_1", "one")
        assert again > first
        await one.release("ses_1", first)
        assert await two.claim("ses_1", "two") is None, "an old fence frees nothing"
        await one.release("ses_1", again)
        second = await claimed(two, "ses_1", "two")
        assert second > again
        before = draft.session
        with pytest.raises(Fenced):
            await one.commit(draft.log(fence=again))
        draft.session = before
        await two.commit(draft.log(fence=second))
        await one.commit(draft.log(fence=None))

    async def test_of_many_claims_at_once_one_succeeds(self, sharing: Sharing) -> None:
        draft = Draft("ses_1")
        await sharing.one.commit(draft.create())
        for _ in range(10):
            calls = [store.claim("ses_1", "h") for store in (sharing.one, sharing.two)]
            fences = await asyncio.gather(*calls)
            assert [fence is None for fence in fences].count(True) == 1
            winner = sharing.one if fences[0] is not None else sharing.two
            await winner.release("ses_1", fences[0] or fences[1] or 0)

    async def test_many_sessions_are_claimed_and_released_at_once(self, sharing: Sharing) -> None:
        names = [f"ses_{number}" for number in range(200)]
        for name in names[:20]:
            await sharing.one.commit(Draft(name).create())
        fences = await asyncio.gather(*[claimed(sharing.one, name, "one") for name in names])
        assert len(set(fences)) == 200
        assert set(await asyncio.gather(*[sharing.two.claim(name, "two") for name in names])) == {None}
        releases = [sharing.one.release(name, fence) for name, fence in zip(names, fences, strict=True)]
        await asyncio.gather(*releases)
        taken = await asyncio.gather(*[claimed(sharing.two, name, "two") for name in names])
        assert min(taken) > max(fences)

    async def test_closing_frees_every_claim(self, sharing: Sharing) -> None:
        await claimed(sharing.one, "ses_1", "one")
        await sharing.one.close()
        await until(sharing, lambda: sharing.two.claim("ses_1", "two"))

    async def test_the_claims_of_a_host_that_died_are_free_and_what_it_wrote_late_is_fenced(
        self, sharing: Sharing
    ) -> None:
        one, two, draft = sharing.one, sharing.two, Draft("ses_1")
        await one.commit(draft.create())
        old = await claimed(one, "ses_1", "one")
        await sharing.die(one)
        fence = await until(sharing, lambda: two.claim("ses_1", "two"))
        assert fence > old
        before = draft.session
        with pytest.raises(Fenced):
            await two.commit(draft.log(fence=old))
        draft.session = before
        await two.commit(draft.log(fence=fence))

    async def test_a_claim_outlives_a_lost_connection_when_nobody_took_it(self, sharing: Sharing) -> None:
        one, two, draft = sharing.one, sharing.two, Draft("ses_1")
        await one.commit(draft.create())
        fence = await claimed(one, "ses_1", "one")
        await sharing.cut(one)
        assert await two.claim("ses_1", "two") is None
        await one.commit(draft.log(fence=fence))
        await one.release("ses_1", fence)
        await claimed(two, "ses_1", "two")

    # Notices

    async def test_commits_of_others_are_told_and_own_ones_are_not(self, sharing: Sharing) -> None:
        theirs, mine, last = Draft("ses_1"), Draft("ses_2"), Draft("ses_3")
        notices = sharing.two.notices()
        first = asyncio.ensure_future(anext(notices))  # noqa: TID251  # awaited below
        await asyncio.sleep(0)
        await sharing.one.commit(theirs.create())
        async with asyncio.timeout(PATIENCE_S):
            assert await first == Notice(session_id="ses_1", sequence=1, ended={})
        await sharing.two.commit(mine.create())
        for _ in range(50):
            await sharing.one.commit(theirs.log())
        await sharing.one.commit(theirs.delete())
        await sharing.one.commit(last.create())
        assert await told(notices, {"ses_1": 52, "ses_3": 1}) == {"ses_1", "ses_3"}

    # Hosts

    async def test_hosts_are_seen_with_what_they_told(self, sharing: Sharing) -> None:
        one, two = sharing.one, sharing.two
        assert list(await peers(two).hosts()) == []
        await peers(one).announce("host_1", bulletin("b"))
        await peers(two).announce("host_2", bulletin("a", agents_open=2))
        for number in (1, 2):
            await one.commit(Draft(f"ses_{number}").create())
            await claimed(one, f"ses_{number}", "host_1")
        full, free = await peers(two).hosts()
        assert (full.id, full.name, full.living, full.sessions, full.free) == ("host_2", "a", True, 0, False)
        assert (free.id, free.bulletin, free.living, free.sessions) == ("host_1", bulletin("b"), True, 2)
        assert free.free
        assert not free.drained
        assert 0 < free.started_at <= free.seen_at
        await sharing.pass_time()
        await peers(one).announce("host_1", bulletin("b", leaving=True))
        _, later = await peers(one).hosts()
        assert later.started_at == free.started_at
        assert later.seen_at > free.seen_at
        assert later.bulletin.leaving
        assert not later.free

    async def test_the_owner_of_a_session_is_a_living_host(self, sharing: Sharing) -> None:
        one, two, draft = sharing.one, sharing.two, Draft("ses_1")
        await one.commit(draft.create())
        await peers(one).announce("host_1", bulletin("a"))
        assert await peers(two).owner("ses_1") is None
        fence = await claimed(one, "ses_1", "host_1")
        owner = await peers(two).owner("ses_1")
        assert owner is not None
        assert (owner.id, owner.name, owner.living) == ("host_1", "a", True)
        await one.release("ses_1", fence)
        assert await peers(two).owner("ses_1") is None
        await claimed(one, "ses_1", "host_1")
        await sharing.die(one)

        async def ownerless() -> bool | None:
            return await peers(two).owner("ses_1") is None

        await until(sharing, ownerless)

    async def test_a_session_made_under_a_claim_has_its_maker_for_an_owner(self, sharing: Sharing) -> None:
        one, two = sharing.one, sharing.two
        await peers(one).announce("host_1", bulletin("a"))
        await peers(two).announce("host_2", bulletin("b"))
        fence = await claimed(one, "ses_1", "host_1")
        await one.commit(replace(unsettled("ses_1").create(), fence=fence))
        owner = await peers(two).owner("ses_1")
        assert owner is not None
        assert owner.id == "host_1"
        assert list(await peers(two).abandoned("b", 9)) == []

    async def test_a_host_that_was_cut_off_comes_back_and_loses_nothing(self, sharing: Sharing) -> None:
        one, two, draft = sharing.one, sharing.two, unsettled("ses_1")
        await peers(one).announce("host_1", bulletin("a"))
        await peers(two).announce("host_2", bulletin("b"))
        await one.commit(draft.create())
        fence = await claimed(one, "ses_1", "host_1")
        await sharing.cut(one)
        assert list(await peers(two).abandoned("b", 9)) == []
        assert [peer.living for peer in await peers(two).hosts()] == [True, True]
        await one.commit(draft.log(fence=fence))

    # What is left behind

    async def test_unsettled_sessions_without_an_owner_are_abandoned(self, sharing: Sharing) -> None:
        one, two = sharing.one, sharing.two
        await peers(one).announce("host_1", bulletin("a"))
        await peers(two).announce("host_2", bulletin("b"))
        gone = unsettled("ses_gone")
        drafts = [unsettled("ses_1"), unsettled("ses_2"), unsettled("ses_owned"), Draft("ses_settled"), gone]
        for draft in drafts:
            await one.commit(draft.create())
        await one.commit(gone.delete())
        fence = await claimed(one, "ses_owned", "host_1")
        assert sorted(await peers(two).abandoned("b", 9)) == ["ses_1", "ses_2"]
        assert len(await peers(two).abandoned("b", 1)) == 1
        await one.release("ses_owned", fence)
        assert sorted(await peers(two).abandoned("b", 9)) == ["ses_1", "ses_2", "ses_owned"]

    async def test_a_label_binds_a_session_to_the_host_of_that_name(self, sharing: Sharing) -> None:
        labels = {
            "ses_1": {"host": "a"},
            "ses_2": {"host": "b"},
            "ses_3": {"ghost": "a"},
            "ses_4": {"x": '["host","a"]'},
        }
        for id, own in labels.items():
            await sharing.one.commit(unsettled(id, labels=own).create())
        assert sorted(await peers(sharing.one).abandoned("a", 9)) == ["ses_1", "ses_3", "ses_4"]
        assert sorted(await peers(sharing.one).abandoned("b", 9)) == ["ses_2", "ses_3", "ses_4"]
        assert sorted(await peers(sharing.one).abandoned("c", 9)) == ["ses_3", "ses_4"]

    async def test_what_a_dead_host_owned_is_abandoned_after_its_grace(self, sharing: Sharing) -> None:
        one, two = sharing.one, sharing.two
        await peers(one).announce("host_1", bulletin("a"))
        await peers(two).announce("host_2", bulletin("b"))
        await one.commit(unsettled("ses_1").create())
        await claimed(one, "ses_1", "host_1")
        assert list(await peers(two).abandoned("b", 9)) == []
        await sharing.die(one)
        assert list(await peers(two).abandoned("b", 9)) == [], "it may come back"
        assert list(await until(sharing, lambda: peers(two).abandoned("b", 9))) == ["ses_1"]
        dead, living = await peers(two).hosts()
        assert (dead.id, dead.living, living.id, living.living) == ("host_1", False, "host_2", True)
        await claimed(two, "ses_1", "host_2")
        assert list(await peers(two).abandoned("b", 9)) == []

    async def test_a_silent_host_is_parted_from_its_claims_and_fenced(self, sharing: Sharing) -> None:
        one, two, draft = sharing.one, sharing.two, unsettled("ses_1")
        await peers(one).announce("host_1", bulletin("a"))
        await one.commit(draft.create())
        old = await claimed(one, "ses_1", "host_1")

        async def left_behind() -> list[str]:
            await peers(two).announce("host_2", bulletin("b"))
            return list(await peers(two).abandoned("b", 9))

        assert await left_behind() == []
        assert await until(sharing, left_behind) == ["ses_1"]
        fence = await until(sharing, lambda: two.claim("ses_1", "host_2"))
        before = draft.session
        with pytest.raises(Fenced):
            await one.commit(draft.log(fence=old))
        draft.session = before
        await two.commit(draft.log(fence=fence))

    async def test_who_was_silent_himself_judges_nobody(self, sharing: Sharing) -> None:
        one, two, draft = sharing.one, sharing.two, unsettled("ses_1")
        await peers(one).announce("host_1", bulletin("a"))
        await peers(two).announce("host_2", bulletin("b"))
        await one.commit(draft.create())
        fence = await claimed(one, "ses_1", "host_1")

        async def nobody_lives() -> bool | None:
            return not any(peer.living for peer in await peers(two).hosts())

        await until(sharing, nobody_lives)
        for _ in range(2):
            assert list(await peers(two).abandoned("b", 9)) == []
            await peers(two).announce("host_2", bulletin("b"))
        await one.commit(draft.log(fence=fence))
        await peers(one).announce("host_1", bulletin("a"))
        assert [peer.living for peer in await peers(two).hosts()] == [True, True]

    async def test_who_leaves_is_gone_at_once(self, sharing: Sharing) -> None:
        one, two = sharing.one, sharing.two
        await peers(one).announce("host_1", bulletin("a"))
        await peers(two).announce("host_2", bulletin("b"))
        await one.commit(unsettled("ses_1").create())
        await claimed(one, "ses_1", "host_1")
        for _ in range(2):
            await peers(one).leave("host_1")
        assert list(await peers(two).abandoned("b", 9)) == ["ses_1"]
        await claimed(two, "ses_1", "host_2")
        left, there = await peers(two).hosts()
        assert (left.id, left.living, left.sessions) == ("host_1", False, 0)
        assert (there.id, there.living, there.sessions) == ("host_2", True, 1)
        await peers(one).announce("host_1", bulletin("a"))
        assert all(peer.living for peer in await peers(two).hosts())

    async def test_nobody_is_given_up_while_everybody_comes_back(self, sharing: Sharing) -> None:
        one, two = sharing.one, sharing.two
        await peers(one).announce("host_1", bulletin("a"))
        await peers(two).announce("host_2", bulletin("b"))
        await one.commit(unsettled("ses_1").create())
        await claimed(one, "ses_1", "host_1")
        await sharing.die(one)
        await sharing.cut(two)
        for _ in range(5):
            assert list(await peers(two).abandoned("b", 9)) == []
            await sharing.pass_time()
        assert list(await until(sharing, lambda: peers(two).abandoned("b", 9))) == ["ses_1"]

    # Drained hosts

    async def test_a_host_is_drained_by_name_until_that_is_undone(self, sharing: Sharing) -> None:
        one, two = sharing.one, sharing.two
        assert not await peers(two).drain("a", drained=True)
        assert list(await peers(two).hosts()) == []
        await peers(one).announce("host_1", bulletin("a"))

        async def only() -> Peer:
            [peer] = await peers(one).hosts()
            return peer

        for _ in range(2):
            assert await peers(two).drain("a", drained=True)
            peer = await only()
            assert peer.drained
            assert peer.living
            assert not peer.free
        for _ in range(2):
            assert await peers(two).drain("a", drained=False)
            assert not (await only()).drained
        assert not await peers(two).drain("b", drained=False)

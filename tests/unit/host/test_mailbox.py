"""What waits for an actor: in order, pieces of text together, and never without a bound."""

import asyncio
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.core import commands as c
from antiphon.host.commits import Pending
from antiphon.host.mailbox import BATCH_MAX, UNREAD_MAX, Mailbox

Came = tuple[str, str]
came = st.tuples(st.sampled_from(["turn_1", "turn_1", "turn_1", "turn_2", "remark"]), st.text(max_size=3))


def bring(mailbox: Mailbox, all_that_came: Iterable[Came]) -> None:
    for turn_id, text in all_that_came:
        if turn_id == "remark":
            mailbox.put(Pending(c.AgentWrote(text=text)))
        else:
            mailbox.speak(turn_id, text)


def told(batch: Iterable[Pending]) -> list[Came]:
    """What lies in a batch, piece by piece."""
    found: list[Came] = []
    for pending in batch:
        command = pending.command
        if isinstance(command, c.AgentSpoke):
            found += [(command.turn_id, text) for text in command.texts]
        else:
            assert isinstance(command, c.AgentWrote)
            found.append(("remark", command.text))
    return found


@given(st.lists(st.lists(came, max_size=6) | st.none(), max_size=12))
def test_all_that_came_is_taken_once_and_in_order(life: list[list[Came] | None]) -> None:
    mailbox, brought, taken = Mailbox(), list[Came](), list[Came]()
    for some in life:
        if some is None:
            taken += told(mailbox.take())
        else:
            bring(mailbox, some)
            brought += some
        assert bool(mailbox) == (taken != brought)
    taken += told(mailbox.take())
    assert taken == brought
    assert not mailbox


def test_pieces_of_one_turn_that_nothing_comes_between_are_one_command() -> None:
    mailbox = Mailbox()
    bring(mailbox, [("turn_1", "a"), ("turn_1", "b"), ("remark", "!"), ("turn_1", "c"), ("turn_2", "d")])
    commands = [pending.command for pending in mailbox.take()]
    assert commands == [
        c.AgentSpoke(turn_id="turn_1", texts=("a", "b")),
        c.AgentWrote(text="!"),
        c.AgentSpoke(turn_id="turn_1", texts=("c",)),
        c.AgentSpoke(turn_id="turn_2", texts=("d",)),
    ]


def test_what_is_taken_together_is_bounded_by_the_piece() -> None:
    mailbox = Mailbox()
    bring(mailbox, [("remark", "!"), *[("turn_1", str(number)) for number in range(3 * BATCH_MAX)]])
    sizes: list[int] = []
    while mailbox:
        sizes.append(len(told(mailbox.take())))
    assert sum(sizes) == 3 * BATCH_MAX + 1
    assert max(sizes) <= BATCH_MAX


async def test_who_brings_too_much_waits_until_some_was_taken() -> None:
    mailbox = Mailbox()
    room = [mailbox.speak("turn_1", "x") for _ in range(UNREAD_MAX)]
    assert room == [True] * (UNREAD_MAX - 1) + [False]
    assert mailbox.crowded
    waiting = asyncio.ensure_future(mailbox.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    mailbox.take()
    async with asyncio.timeout(5):
        await waiting
    assert not mailbox.crowded


@pytest.mark.parametrize("bringing", ["speak", "put"])
async def test_whoever_looks_is_told_of_what_came_since(bringing: str) -> None:
    mailbox = Mailbox()
    for _ in range(2):
        bring(mailbox, [("turn_1", "x") if bringing == "speak" else ("remark", "x")])
        assert mailbox.arrived.is_set()
        mailbox.arrived.clear()
        mailbox.take()
        assert not mailbox.arrived.is_set()


async def test_a_command_of_clients_is_told_apart_from_what_agents_say() -> None:
    def filled() -> Mailbox:
        mailbox = Mailbox()
        bring(mailbox, [("turn_1", "x")] * UNREAD_MAX)
        mailbox.put(Pending(c.ClearSession(), asyncio.get_running_loop().create_future()))
        return mailbox

    mailbox = filled()
    mailbox.keep_clients()
    assert [pending.command for pending in mailbox.take()] == [c.ClearSession()]
    assert not mailbox.crowded
    mailbox = filled()
    mailbox.keep_agents()
    assert mailbox.crowded
    assert all(pending.answer is None for pending in mailbox)
    mailbox.clear()
    assert not mailbox
    await mailbox.room()

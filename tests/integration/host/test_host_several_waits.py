"""Waiting where several hosts share the store: an owner knows what it does, and learns what others do."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from antiphon.host.service import NewMessage, NewSession
from hostlab.house import BriskClock
from hostlab.town import WAIT_S, CommonMemory, Resident, Town


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[Town]:
    clock = BriskClock()
    town = Town(CommonMemory(clock), clock, str(tmp_path))
    yield town
    await town.leave()


async def never(*_: Any, **__: Any) -> NoReturn:
    raise AssertionError("this need not be read")


async def owned(at: Resident) -> str:
    """A session that this host owns and has answered in; its id."""
    view, _ = await at.host.create_session(NewSession(agent="scripted", key="k"), return_existing=False)
    await at.ask("k", "hello")
    await at.owns(view.id)
    return view.id


async def test_an_owner_that_is_sent_to_and_waited_at_reads_nothing(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    alpha = await town.settle("alpha")
    await town.settle("beta")
    await owned(alpha)

    for name in ("find", "load", "entries", "message", "turn", "reply"):
        monkeypatch.setattr(alpha.line.store, name, never)
    assert (await alpha.ask("k", "A")).reply == "answer to A"


async def test_a_guest_reads_little_in_order_to_decide_and_the_owner_little_in_order_to_prompt(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    alpha, beta = await town.settle("alpha"), await town.settle("beta")
    await owned(alpha)
    await beta.ask("k", "A")
    await alpha.ask("k", "B")
    for name in ("find", "entries"):
        monkeypatch.setattr(beta.line.store, name, never)
    monkeypatch.setattr(alpha.line.store, "messages", never)
    assert (await beta.ask("k", "C")).reply == "answer to C"


async def test_one_who_waits_at_the_owner_hears_that_another_host_withdrew_his_message(town: Town) -> None:
    alpha, beta = await town.settle("alpha"), await town.settle("beta")
    await owned(alpha)
    await alpha.hold("k")
    waiting = await alpha.send("k", "A")
    async with asyncio.timeout(WAIT_S), asyncio.TaskGroup() as group:
        wait = group.create_task(alpha.host.wait_message(waiting.id, None))
        await asyncio.sleep(0)
        await beta.host.withdraw_message(waiting.id)
    assert wait.result().state == "withdrawn"


async def test_a_key_that_another_host_gave_to_a_new_session_leads_there(town: Town) -> None:
    alpha, beta = await town.settle("alpha"), await town.settle("beta")
    first = await owned(alpha)
    alpha.line.deaf = True
    await beta.host.delete_session(first)
    second, _ = await beta.host.create_session(NewSession(agent="scripted", key="k"), return_existing=False)
    sent = await alpha.host.send("k", NewMessage(text="A"), create=NewSession(agent="scripted", key="k"))
    assert sent.session_id == second.id

"""A caller of the endurance run whose calls get no answers holds nothing and loses nothing."""

import asyncio
from pathlib import Path

from antiphon.agents.echo import EchoAgent
from antiphon.agents.loopback import loopback_of
from antiphon.client import AsyncClient, Client, Pace
from antiphon.testing.endurance.caller import Account, Caller
from antiphon.testing.endurance.fleet import Member
from clientlab.cutting import Cut, CuttingProxy
from clientlab.running import Installation

IMPATIENT = Pace(slice_s=1, retry_s=0, reconnect_s=0, last_try_s=0)
UNHEARD = 12


async def test_a_caller_that_is_not_answered_lets_go_of_what_it_holds_and_goes_on(
    host: Installation, tmp_path: Path
) -> None:
    ready = host.ready()
    address, port = ready["url"].removeprefix("http://").split(":")
    account, ended = Account(), asyncio.Event()

    def every_ninth_is_lost(_line: str, number: int) -> Cut | None:
        if account.unheard >= UNHEARD:
            ended.set()
        return Cut("after", 5) if number % 9 == 0 and not ended.is_set() else None

    member = Member("echo", loopback_of(EchoAgent, {}, "", tmp_path))
    with CuttingProxy((address, int(port)), every_ninth_is_lost) as proxy:
        async with AsyncClient(proxy.url, ready["token"], pace=IMPATIENT) as client, asyncio.timeout(100):
            await Caller(1, member, client, account, seed=1).run(ended)
    assert account.findings == []
    assert account.unheard >= UNHEARD
    assert account.words.keys() == account.ends.keys()
    assert account.states["answered"] > 0
    with Client(ready["url"], ready["token"]) as direct:
        session = direct.session("endurance:1")
        assert (session.turn_id, session.queued) == (None, 0)

"""One async client for many waits at once."""

import asyncio

from antiphon.client import AsyncClient
from clientlab.running import Installation

WAITS = 120


async def test_who_cancels_does_not_queue_up_behind_those_who_wait(host: Installation) -> None:
    ready = host.ready()
    async with AsyncClient(ready["url"], ready["token"]) as client:
        session = await client.session_start("echo", cwd=str(host.work))
        held = await client.send(session.id, "[[hold never-released]]", wait_s=0)
        async with asyncio.timeout(60):
            while (turn_id := (await client.message(held.id)).turn_id) is None:
                pass  # each look takes its own moment
            waits = [asyncio.ensure_future(client.wait(held.id)) for _ in range(WAITS)]
            await asyncio.sleep(0)
            async with asyncio.timeout(25):  # less than a host lets one wait last
                await client.turn_cancel(turn_id)
            ends = await asyncio.gather(*waits)
        assert {end.state for end in ends} == {"cancelled"}

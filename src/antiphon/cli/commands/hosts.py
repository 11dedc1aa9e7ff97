"""`antiphon host list` and `antiphon host drain`."""

import time

from antiphon.cli.context import Context
from antiphon.cli.exits import DONE, WAIT_ENDED
from antiphon.cli.grammar import Given
from antiphon.cli.listing import ago, table
from antiphon.client.sync import Client

PAUSE_S = 0.5
TIMEOUT_S = 300.0


def list_(context: Context, given: Given) -> int:
    """List the hosts."""
    del given
    with context.client() as client:
        found = client.hosts()
    if context.out.as_json:
        context.out.document({"items": [host.document for host in found]})
        return DONE
    rows = [
        (
            f"{host.name} (this one)" if host.this else host.name,
            host.state,
            str(host.sessions),
            f"{host.agents_open} of {host.max_agents}",
            ago(host.seen_at),
            host.version,
            host.url,
        )
        for host in found
    ]
    table(context.out, ("HOST", "STATE", "SESSIONS", "AGENTS", "SEEN", "VERSION", "ADDRESS"), rows, coloured=1)
    return DONE


def drain(context: Context, given: Given) -> int:
    """Drain a host, or undo that."""
    name = given.text("name")
    with context.client() as client:
        if given.flag("undo"):
            host = client.host_undrain(name)
            context.out.note(f"{name} may own sessions again.")
        else:
            host = client.host_drain(name)
            if not given.flag("no_wait") and not _wait(context, client, name, given.number("timeout") or TIMEOUT_S):
                return WAIT_ENDED
            host = next((found for found in client.hosts() if found.name == name), host)
            context.out.note(f"{name} is drained: it owns {_sessions(host.sessions)}.")
    if context.out.as_json:
        context.out.document(host.document)
    return DONE


def _wait(context: Context, client: Client, name: str, seconds: float) -> bool:
    """Wait until a host owns no session, and say how far that is; whether it came to that in time."""
    until, told = time.monotonic() + seconds, -1  # noqa: TID251  a person waits in real time
    while left := sum(host.sessions for host in client.hosts() if host.name == name and host.state != "away"):
        if left != told:
            context.out.note(f"{name} still owns {_sessions(left)}.")
            told = left
        if time.monotonic() >= until:  # noqa: TID251
            context.out.note("It goes on handing them over as their turns end.")
            return False
        time.sleep(PAUSE_S)  # noqa: TID251
    return True


def _sessions(number: int) -> str:
    return "no session" if number == 0 else f"{number} session{'s' if number > 1 else ''}"

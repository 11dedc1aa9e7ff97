"""`antiphon serve` and `antiphon status`."""

from importlib import import_module

from antiphon.cli.attention import needing, reason
from antiphon.cli.context import Context
from antiphon.cli.exits import DONE
from antiphon.cli.garbage import collect_as_usual
from antiphon.cli.grammar import Given, UsageError
from antiphon.cli.listing import ago, fields, table
from antiphon.client.exchanges import given as only_given


def serve(context: Context, given: Given) -> int:
    """Run the host in this process."""
    # Composition stands above the command line, so it is named and not imported; and no other command pays for it.
    composition = import_module("antiphon.main")
    collect_as_usual()
    port = given.whole("port")
    if port is not None and port > 65535:
        raise UsageError(f"--port takes a number up to 65535, not {port}")
    options = only_given(
        host=given.optional("host"),
        port=port,
        store=given.optional("store"),
        config=given.optional("config"),
        log_level=given.optional("log_level"),
    )
    return composition.serve(data_dir=context.local.data_dir, **options)


def status(context: Context, given: Given) -> int:
    """Show how the host is."""
    del given
    with context.client() as client:
        host = client.status()
        urgent = needing(client)
        asked = list(client.permissions()) if any(session.status == "asking" for session in urgent) else []
    if context.out.as_json:
        attention = [{**session.document, "reason": reason(session, asked)} for session in urgent]
        context.out.document({**host.document, "attention": attention})
        return DONE
    uptime = int(host.uptime_s or 0)
    fields(
        context.out,
        (
            ("host", context.url or _address(context)),
            ("data", None if context.url else context.local.data_dir),
            ("version", host.version),
            ("state", "draining" if host.draining else "serving"),
            ("store", host.store),
            ("up for", f"{uptime // 3600} h {uptime % 3600 // 60} min {uptime % 60} s"),
            ("sessions", f"{host.sessions_awake} awake"),
            ("turns", f"{host.turns_running} running"),
            ("messages", f"{host.messages_queued} waiting"),
            ("agents", f"{host.agents_open} of {host.max_agents} running"),
            ("viewers", str(host.viewers)),
        ),
    )
    if urgent:
        context.out.line()
        rows = [(each.ref, each.status, ago(each.active_at), reason(each, asked)) for each in urgent]
        table(context.out, ("NEEDS A PERSON", "STATUS", "ACTIVE", "WHY"), rows, coloured=1)
    return DONE


def _address(context: Context) -> str:
    return context.local.address().url

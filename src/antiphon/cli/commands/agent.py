"""`antiphon agent …`: what the host can run."""

import time
from collections.abc import Sequence
from typing import Any

from antiphon.cli.context import Context
from antiphon.cli.exits import DONE, FAILED, UNKNOWN
from antiphon.cli.grammar import Given, UsageError
from antiphon.cli.listing import table
from antiphon.client.documents import Agent, Receipt
from antiphon.client.sync import Client

QUESTION = "Reply with the single word: ready"
TITLE = "antiphon agent check"
TURN_S = 120.0


def list_(context: Context, given: Given) -> int:
    """List the agents."""
    with context.client() as client:
        agents = client.agents()
    if context.out.as_json:
        context.out.document({"items": [agent.document for agent in agents]})
    elif given.flag("names"):
        for agent in agents:
            context.out.line(agent.name)
    else:
        rows = [(agent.name, _state(agent), _abilities(agent), agent.missing or "") for agent in agents]
        table(context.out, ("AGENT", "STATE", "CAN", "WHAT IS MISSING"), rows, coloured=1)
    return DONE


def check(context: Context, given: Given) -> int:
    """Say what agents lack, and try one out."""
    name = given.optional("name")
    if given.flag("loopback") or given.flag("fault_lab"):
        if name is None:
            raise UsageError("say which agent: antiphon agent check NAME --loopback")
        from antiphon.cli.commands import trying  # noqa: PLC0415  nothing else needs what it imports

        return (
            trying.fault_lab(context, given, name) if given.flag("fault_lab") else trying.loopback(context, given, name)
        )
    with context.client() as client:
        agents = [agent for agent in client.agents() if name in (None, agent.name)]
        if name is None:
            return _print_all(context, agents)
        if not agents:
            context.out.error(f"antiphon: No agent {name!r} here. `antiphon agent list` shows what there is.")
            return UNKNOWN
        return _check_one(context, given, client, agents[0])


def _print_all(context: Context, agents: Sequence[Agent]) -> int:
    if context.out.as_json:
        context.out.document({"items": [agent.document for agent in agents]})
    else:
        rows = [(agent.name, _state(agent), agent.missing or "") for agent in agents]
        table(context.out, ("AGENT", "STATE", "WHAT IS MISSING"), rows, coloured=1)
    return DONE


def _check_one(context: Context, given: Given, client: Client, agent: Agent) -> int:
    """What one agent lacks; if nothing, whether it answers."""
    document: dict[str, Any] = dict(agent.document)
    if agent.available and not given.flag("no_turn"):
        document["turn"] = _turn(context, client, agent.name, given.number("timeout") or TURN_S)
    turn = document.get("turn")
    fine = agent.available and (turn is None or turn["state"] == "answered")
    if context.out.as_json:
        context.out.document(document)
        return DONE if fine else FAILED
    rows = [("installed", _state(agent), agent.missing or "")]
    if turn is not None:
        rows.append(("a turn", "ok" if fine else "failed", turn["detail"]))
    table(context.out, ("CHECK", "STATE", "DETAIL"), rows, coloured=1)
    return DONE if fine else FAILED


def _turn(context: Context, client: Client, agent: str, timeout_s: float) -> dict[str, Any]:
    """One real turn in a session of its own, which is gone afterwards, however it went."""
    context.out.note(f"Asking {agent} for one word…")
    session = client.session_start(agent, title=TITLE)
    began = time.monotonic()  # noqa: TID251  a person waits in real time
    try:
        receipt = client.send(session.id, QUESTION, wait_s=timeout_s)
        asked = [each.question for each in client.permissions(ref=session.id)] if not receipt.ended else []
    finally:
        client.session_delete(session.id)
    seconds = round(time.monotonic() - began, 1)  # noqa: TID251
    detail = _told(receipt, seconds, timeout_s, asked)
    return {"state": receipt.state, "reply": receipt.reply, "detail": detail, "duration_s": seconds}


def _told(receipt: Receipt, seconds: float, timeout_s: float, asked: Sequence[str]) -> str:
    if receipt.state == "answered":
        return f"It answered {(receipt.reply or '').strip()[:200]!r} in {seconds:g} s."
    if receipt.error:
        return receipt.error.detail or receipt.error.code
    if asked:
        return f"It asks a person: {asked[0]}"
    if not receipt.ended:
        return f"No answer within {timeout_s:g} s. --timeout gives it longer."
    return f"The turn was {receipt.state}."


def _state(agent: Agent) -> str:
    return "ok" if agent.available else "missing"


def _abilities(agent: Agent) -> str:
    return ", ".join(name for name, can in (agent.capabilities or {}).items() if can)

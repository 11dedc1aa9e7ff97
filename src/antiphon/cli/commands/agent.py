"""`antiphon agent …`: what the host can run."""

from collections.abc import Sequence

from antiphon.cli.context import Context
from antiphon.cli.exits import DONE, FAILED, UNKNOWN
from antiphon.cli.grammar import Given
from antiphon.cli.listing import table
from antiphon.client.documents import Agent


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
        rows = [(agent.name, _state(agent), _abilities(agent)) for agent in agents]
        table(context.out, ("AGENT", "STATE", "CAN"), rows, coloured=1)
    return DONE


def check(context: Context, given: Given) -> int:
    """Say what agents lack."""
    name = given.optional("name")
    with context.client() as client:
        agents = [agent for agent in client.agents() if name in (None, agent.name)]
    if name is not None and not agents:
        context.out.error(f"antiphon: No agent {name!r} here. `antiphon agent list` shows what there is.")
        return UNKNOWN
    if context.out.as_json:
        context.out.document(agents[0].document if name else {"items": [agent.document for agent in agents]})
    else:
        _print(context, agents)
    return FAILED if name is not None and not agents[0].available else DONE


def _print(context: Context, agents: Sequence[Agent]) -> None:
    rows = [(agent.name, _state(agent), agent.missing or "") for agent in agents]
    table(context.out, ("AGENT", "STATE", "WHAT IS MISSING"), rows, coloured=1)


def _state(agent: Agent) -> str:
    return "ok" if agent.available else "missing"


def _abilities(agent: Agent) -> str:
    return ", ".join(name for name, can in (agent.capabilities or {}).items() if can)

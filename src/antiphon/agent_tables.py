"""The agents of a configuration: `[agents.NAME]`, and its profiles `[agents.NAME.profiles.PROFILE]`."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from antiphon.host.settings import AgentSettings

OWN = frozenset(field.name for field in msgspec.structs.fields(AgentSettings))
"""What every agent may be set to, whatever its adapter."""
NOT_NEGATIVE = (
    "memory_mb",
    "stall_after_s",
    "busy_stall_after_s",
    "end_stalled_after_s",
    "permission_deadline_s",
)


class BadTable(Exception):
    """A table can't be used; the text says where and why."""


class AgentTable(msgspec.Struct, frozen=True, kw_only=True):
    """An agent: its adapter, that adapter's options, and what every agent may be set to.

    Attributes:
        adapter: A built-in one by its name, any other as `module:class`.
        options: The adapter's own.
        settings: Everything else.
        profile_of: The agent that this is a profile of.
    """

    adapter: str
    options: dict[str, Any]
    settings: AgentSettings = AgentSettings()
    profile_of: str | None = None


def agent_tables(tables: Mapping[str, Any]) -> dict[str, AgentTable]:
    """The agents that the tables name. A profile is an agent called `NAME:PROFILE`, with what its own table changes.

    Raises:
        BadTable: One of them can't be used.
    """
    return {name: made for table_name, table in tables.items() for name, made in _agents(table_name, table)}


def _agents(name: str, table: Any) -> Iterator[tuple[str, AgentTable]]:
    where = f"agents.{name}"
    if not isinstance(table, dict):
        raise BadTable(f"{where} must be a table")
    base = cast("dict[str, Any]", table)
    profiles = base.get("profiles", {})
    if not isinstance(profiles, dict):
        raise BadTable(f"{where}.profiles must hold tables")
    base = {key: value for key, value in base.items() if key != "profiles"}
    yield name, _agent(where, name, base)
    for profile, changes in cast("dict[str, Any]", profiles).items():
        place = f"{where}.profiles.{profile}"
        if not isinstance(changes, dict):
            raise BadTable(f"{place} must be a table")
        agent = _agent(place, name, _laid_over(base, cast("dict[str, Any]", changes)))
        yield f"{name}:{profile}", msgspec.structs.replace(agent, profile_of=name)


def _laid_over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A table with changes; tables within it are merged, anything else is replaced."""
    result = dict(base)
    for key, value in changes.items():
        under = result.get(key)
        both = isinstance(under, dict) and isinstance(value, dict)
        result[key] = _laid_over(cast("dict[str, Any]", under), cast("dict[str, Any]", value)) if both else value
    return result


def _agent(where: str, name: str, table: Mapping[str, Any]) -> AgentTable:
    adapter = table.get("adapter", name)
    if not isinstance(adapter, str):
        raise BadTable(f"{where}.adapter must be the name of an adapter")
    own = {key: value for key, value in table.items() if key in OWN}
    try:
        settings = msgspec.convert(own, AgentSettings)
    except msgspec.ValidationError as error:
        raise BadTable(f"{where}: {error}") from error
    if flaw := _flaw(settings):
        raise BadTable(f"{where}.{flaw}")
    options = {key: value for key, value in table.items() if key not in OWN and key != "adapter"}
    return AgentTable(adapter=adapter, options=options, settings=settings)


def _flaw(settings: AgentSettings) -> str | None:
    for name in NOT_NEGATIVE:
        value = getattr(settings, name)
        if value is not None and not 0 <= value < float("inf"):  # NaN is neither
            return f"{name} must be a number, 0 or more"
    if settings.output_mb is not None and not 0 < settings.output_mb < float("inf"):
        return "output_mb must be a number above 0"
    if settings.permission_default not in (None, "allow", "deny"):
        return "permission_default must be allow or deny"
    return None

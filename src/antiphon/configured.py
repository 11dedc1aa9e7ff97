"""The configuration as it holds: which file, which agents, and all of it in words for a person."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from antiphon.agent_tables import AgentTable
from antiphon.agents.catalogue import ADAPTERS, UnknownAdapter, build
from antiphon.agents.environment import SECRET_NAME
from antiphon.config import Config, ConfigError, HostTable, HttpTable, read_config
from antiphon.host.settings import AgentSettings
from antiphon.store.address import shown
from antiphon.webhooks.settings import WebhooksTable

HIDDEN = "[hidden]"


def configuration_file(data_dir: Path, named: Path | None) -> tuple[Path, bool]:
    """The file: the one that is named, else the one of ANTIPHON_CONFIG, else the data directory's, which need not be.

    Returns:
        The path, and whether there must be such a file.
    """
    told = named or Path(os.environ.get("ANTIPHON_CONFIG") or "")
    return (told, True) if told.name else (data_dir / "antiphon.toml", False)


def configuration(data_dir: Path, named: Path | None) -> Config:
    """The configuration of a data directory's host.

    Raises:
        ConfigError: It can't be used.
    """
    path, required = configuration_file(data_dir, named)
    return read_config(path, required=required)


def agent_tables(config: Config) -> dict[str, AgentTable]:
    """The built-in agents, and those that the configuration names or changes."""
    names = [name for name in ADAPTERS if name != "echo" or config.host.echo]
    return {name: AgentTable(adapter=name, options={}) for name in names} | config.agents


def agent_table(data_dir: Path, named: Path | None, name: str) -> AgentTable | None:
    """One agent, by its name or, if there is no such agent, as an adapter `module:class` without options.

    Raises:
        ConfigError: The configuration can't be used.
    """
    found = agent_tables(configuration(data_dir, named)).get(name)
    if found is None and ":" in name:
        return AgentTable(adapter=name, options={})
    return found


def described(data_dir: Path, named: Path | None) -> dict[str, Any]:
    """The configuration as a JSON object: what differs from the defaults, and every agent. Secrets are hidden.

    Raises:
        ConfigError: It can't be used.
        UnknownAdapter: An agent can't be set up as it says.
    """
    path, required = configuration_file(data_dir, named)
    config = read_config(path, required=required)
    agents = agent_tables(config)
    for name, table in agents.items():
        build(table.adapter, name, table.options)
    return {
        "file": str(path),
        "exists": path.exists(),
        "store": shown(os.environ.get("ANTIPHON_STORE") or "sqlite"),
        "host": _changed(config.host, HostTable()),
        "http": _changed(config.http, HttpTable()),
        "webhooks": _changed(config.webhooks, WebhooksTable()),
        "agents": {name: _agent(table) for name, table in sorted(agents.items())},
    }


def _agent(table: AgentTable) -> dict[str, Any]:
    settings = _changed(table.settings, AgentSettings())
    profile = {"profile_of": table.profile_of} if table.profile_of else {}
    unset = [name for name in table.settings.inherit if name not in os.environ]
    lacking = {"not_set": unset} if unset else {}
    return {"adapter": table.adapter, **profile, **settings, **lacking, **_hidden(table.options)}


def _changed(table: msgspec.Struct, default: msgspec.Struct) -> dict[str, Any]:
    told = {name: getattr(table, name) for name in table.__struct_fields__}
    return {name: value for name, value in told.items() if value != getattr(default, name)}


def _hidden(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table without the values whose names say that they are secret."""
    shown: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            shown[name] = _hidden(cast("dict[str, Any]", value))
        else:
            secret = isinstance(value, str) and SECRET_NAME.search(name) and not name.endswith("_env")
            shown[name] = HIDDEN if secret or name.lower() == "authorization" else value
    return shown


__all__ = [
    "ConfigError",
    "UnknownAdapter",
    "agent_table",
    "agent_tables",
    "configuration",
    "configuration_file",
    "described",
]

"""The configuration: `antiphon.toml`, read once at start into typed values. Everything in it has a default.

[host]            limits and deadlines, see `HostTable`
[http]            further names under which the host may be addressed
[webhooks]        where deliveries may go, see `antiphon.webhooks.settings`
[agents.NAME]     adapter = "echo" | "command" | "claude" | "codex" | …, that adapter's own options, and what every
                  agent may be set to, see `antiphon.agent_tables`

The environment wins over it, see `antiphon.overrides`.
"""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from antiphon.agent_tables import AgentTable, BadTable, agent_tables
from antiphon.core.decide import Rules
from antiphon.core.names import HOST_NAME
from antiphon.core.words import OnCrash, Overflow, Senders, WhenBusy
from antiphon.host.settings import AgentSettings, HostSettings
from antiphon.overrides import overridden
from antiphon.webhooks.settings import WebhooksTable


class ConfigError(Exception):
    """The configuration can't be used; the text says where and why."""


class HostTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[host]`: limits and deadlines. Durations are seconds.

    Attributes:
        name: What this host is called among those that share a store; the machine's name without it. Sessions with the
            label `host` stay with the host of that name.
        when_busy: What a message does that finds a turn running, unless it or its session says otherwise.
        queue_max: How many messages may wait in a session.
        collect_max: How many `collect` messages one turn answers in full.
        collect_quiet_s: For how long no further `collect` message may have come before what was collected runs; a
            burst that does not end is waited for five times as long.
        collect_overflow: What becomes of more than `collect_max`: `refuse`, or `summarise`, which gives the agent of
            the oldest the beginnings only.
        collect_senders: Whether one turn answers `collect` messages of one sender only (`apart`), or all (`together`).
        max_agents: How many agents may be open at once.
        max_sessions: How many sessions may be kept; 0 for no limit.
        agent_idle_s: After how long without a turn an agent is let go.
        open_timeout_s: How long an agent may take to start.
        cancel_grace_s: How long an agent may take to stop its turn by itself before it is ended.
        close_patience_s: How long an agent may take to end politely before it is killed.
        drain_s: How long running turns may go on after a shutdown was asked for.
        stall_after_s: After how long of silence, without a sign of life of its processes, a turn counts as stalled.
        busy_stall_after_s: After how long of silence it does in spite of such signs.
        end_stalled_after_s: How long a turn may be stalled until it is failed and its agent ended; 0 for ever.
        permission_deadline_s: How long a question waits for a person before policy answers it; 0 for ever.
        permission_default: What policy answers then: `deny` or `allow`.
        allow_tools: The tools that policy allows at once, by name; `*` stands for anything, as in `mcp__files__*`.
        deny_tools: Those that it denies at once; a tool that both lists name is denied.
        memory_mb: How much memory an agent and all that it starts may use; more ends it. 0 for no limit.
        output_mb: How much one turn may say, think and tell of its tools; more ends the agent and fails the turn.
        on_crash: What becomes of a turn that a crash cut short: `interrupt`, `retry_if_untouched` or `resume`.
        echo: Whether the built-in `echo` agent is there.
    """

    name: str = ""
    when_busy: WhenBusy = "queue"
    queue_max: int = 100
    collect_max: int = 20
    collect_quiet_s: float = 0.5
    collect_overflow: Overflow = "refuse"
    collect_senders: Senders = "apart"
    max_agents: int = 64
    max_sessions: int = 0
    agent_idle_s: float = 900.0
    open_timeout_s: float = 60.0
    cancel_grace_s: float = 5.0
    close_patience_s: float = 3.0
    drain_s: float = 5.0
    stall_after_s: float = 300.0
    busy_stall_after_s: float = 3600.0
    end_stalled_after_s: float = 0.0
    permission_deadline_s: float = 0.0
    permission_default: str = "deny"
    allow_tools: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()
    memory_mb: int = 0
    output_mb: float = 64.0
    on_crash: OnCrash = "interrupt"
    echo: bool = True


class HttpTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[http]`: `allowed_hosts` are further names to be addressed by, as in `Host`, with a port that is not 80."""

    allowed_hosts: tuple[str, ...] = ()


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The whole configuration."""

    host: HostTable = HostTable()
    http: HttpTable = HttpTable()
    webhooks: WebhooksTable = WebhooksTable()
    agents: dict[str, AgentTable] = {}

    def settings(self, environment: Mapping[str, str]) -> HostSettings:
        """The host's settings; `environment` is the host's own, of which agents may inherit."""
        host = self.host
        return HostSettings(
            rules=Rules(
                when_busy=host.when_busy,
                queue_max=host.queue_max,
                collect_max=host.collect_max,
                collect_quiet_s=host.collect_quiet_s,
                collect_overflow=host.collect_overflow,
                collect_senders=host.collect_senders,
            ),
            max_agents=host.max_agents,
            max_sessions=host.max_sessions or None,
            agent_idle_s=host.agent_idle_s,
            open_timeout_s=host.open_timeout_s,
            cancel_grace_s=host.cancel_grace_s,
            close_patience_s=host.close_patience_s,
            drain_s=host.drain_s,
            stall_after_s=host.stall_after_s,
            busy_stall_after_s=host.busy_stall_after_s,
            end_stalled_after_s=host.end_stalled_after_s or None,
            permission_deadline_s=host.permission_deadline_s or None,
            permission_default=host.permission_default,
            allow_tools=host.allow_tools,
            deny_tools=host.deny_tools,
            memory_mb=host.memory_mb,
            output_mb=host.output_mb,
            inherited={
                name: {
                    variable: environment[variable] for variable in table.settings.inherit if variable in environment
                }
                for name, table in self.agents.items()
                if table.settings.inherit
            },
            agents={name: table.settings for name, table in self.agents.items() if table.settings != AgentSettings()},
            on_crash=host.on_crash,
        )


def read_config(path: Path, *, required: bool, environment: Mapping[str, str] | None = None) -> Config:
    """The configuration in a file; all defaults when there is none and none is required.

    Args:
        path: The file.
        required: Whether there must be one.
        environment: What may override it; `os.environ` when not given.

    Raises:
        ConfigError: The file is missing though required, is no TOML, or holds what is not known.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if required:
            raise ConfigError(f"There is no configuration file {path}.") from None
        document = {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"The configuration {path} can't be read: {error}") from error
    try:
        return _config(overridden(document, os.environ if environment is None else environment))
    except (msgspec.ValidationError, BadTable, ConfigError) as error:
        raise ConfigError(f"The configuration {path} can't be used: {error}") from error


def _config(document: dict[str, Any]) -> Config:
    unknown = set(document) - {"host", "http", "webhooks", "agents"}
    if unknown:
        raise ConfigError(f"unknown table {min(unknown)!r}; known are [host], [http], [webhooks] and [agents.NAME]")
    host = msgspec.convert(document.get("host", {}), HostTable)
    if host.permission_default not in ("allow", "deny"):
        raise ConfigError("host.permission_default must be allow or deny")
    low = [name for name in ("queue_max", "collect_max", "max_agents") if getattr(host, name) < 1]
    if low:
        raise ConfigError(f"host.{low[0]} must be at least 1")
    if host.name and not HOST_NAME.fullmatch(host.name):
        raise ConfigError("host.name must be 1 to 100 letters, digits, `.`, `_` or `-`, as a machine's name is")
    if host.max_sessions < 0:
        raise ConfigError("host.max_sessions must be at least 0")
    for name, value in msgspec.structs.asdict(host).items():
        if name.endswith("_s") and not 0 <= value < float("inf"):  # NaN is neither
            raise ConfigError(f"host.{name} must be a number of seconds, 0 or more")
    if host.memory_mb < 0:
        raise ConfigError("host.memory_mb must be at least 0")
    if not 0 < host.output_mb < float("inf"):
        raise ConfigError("host.output_mb must be a number above 0")
    agents = agent_tables(msgspec.convert(document.get("agents", {}), dict[str, Any]))
    http = msgspec.convert(document.get("http", {}), HttpTable)
    return Config(host=host, http=http, webhooks=_webhooks(document.get("webhooks", {})), agents=agents)


def _webhooks(table: Any) -> WebhooksTable:
    try:
        return WebhooksTable.checked(table)
    except msgspec.ValidationError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from error

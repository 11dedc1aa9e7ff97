"""How the configuration describes an ACP agent."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from antiphon.agents.process import LINE_LIMIT


class BadOptions(ValueError):
    """The agent's table of the configuration is wrong; the text is for a person."""


class AcpOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the table `[agents.NAME]` of an agent with `adapter = "acp"` may hold besides.

    Attributes:
        command: The program and the arguments that make it speak ACP on stdin and stdout, such as
            `["opencode", "acp"]`. It is looked up on the PATH of the process.
        environment: Further variables of the process, such as a key.
        mode: The mode that its sessions are put into, by the agent's id of it, such as `plan`.
        config: Its other options that it offers for a session, by their ids.
        auth_method: By which of its ways it is to log in, where it wants to be told.
        mcp_servers: MCP servers for its sessions, each as ACP describes one: `name`, `command`, `args` and `env`, or
            `type`, `name`, `url` and `headers`.
        arguments: Further arguments of the command line.
        line_limit: Bytes of a line of the agent's; a longer one fails its turn.
    """

    command: Annotated[list[str], msgspec.Meta(min_length=1)]
    environment: dict[str, str] = {}
    mode: str | None = None
    config: dict[str, str | bool] = {}
    auth_method: str | None = None
    mcp_servers: list[dict[str, Any]] = []
    arguments: list[str] = []
    line_limit: int = LINE_LIMIT

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> "AcpOptions":
        """Check a table of the configuration.

        Raises:
            BadOptions: A key is missing or unknown, or has a bad value.
        """
        try:
            return msgspec.convert(dict(table), cls)
        except msgspec.ValidationError as error:
            raise BadOptions(f"The configuration of this ACP agent is wrong: {error}.") from error

    def command_line(self, inherited: Mapping[str, str]) -> list[str]:
        """The whole command line, for a process with these variables.

        Raises:
            FileNotFoundError: There is no such program.
        """
        first, *more = self.command
        found = shutil.which(str(Path(first).expanduser()), path=self.variables(inherited).get("PATH"))
        if found is None:
            raise FileNotFoundError(
                f"The configured `command` of this ACP agent, {first!r}, is not a program on the PATH. Install it, or "
                "give its whole path."
            )
        return [found, *more, *self.arguments]

    def variables(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The environment of the process."""
        return {**inherited, **self.environment}

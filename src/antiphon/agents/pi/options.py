"""How the configuration describes a pi agent, and where the program is found."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from antiphon.agents.process import LINE_LIMIT

INSTALL = "pi is not installed here. Get it with: npm install -g --ignore-scripts @mariozechner/pi-coding-agent"


class BadOptions(ValueError):
    """The agent's table of the configuration is wrong; the text is for a person."""


class PiOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the table `[agents.NAME]` of an agent with `adapter = "pi"` may hold besides.

    Attributes:
        command: The program, or the program and its first arguments. By default `pi` on the PATH.
        home: pi's own directory (PI_CODING_AGENT_DIR) with its login, models and settings. By default the user's
            `~/.pi/agent`.
        provider: Whose models it asks; by default as its own settings say.
        model: The model, unless the session names one.
        tools: The tools that it may use, such as `read` and `bash`; by default as its own settings say. It asks nobody.
        append_system_prompt: What is added to its system prompt.
        environment: Further variables of the process, such as the key of a provider.
        arguments: Further arguments of the command line.
        line_limit: Bytes of a line of pi's; a longer one fails its turn. With each piece of an answer pi says
            all of it twice.
    """

    command: str | list[str] | None = None
    home: str | None = None
    provider: str | None = None
    model: str | None = None
    tools: list[str] | None = None
    append_system_prompt: str | None = None
    environment: dict[str, str] = {}
    arguments: list[str] = []
    line_limit: int = LINE_LIMIT

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> "PiOptions":
        """Check a table of the configuration.

        Raises:
            BadOptions: A key is unknown or has a bad value.
        """
        try:
            return msgspec.convert(dict(table), cls)
        except msgspec.ValidationError as error:
            raise BadOptions(f"The configuration of this pi agent is wrong: {error}.") from error

    def command_line(self, model: str | None, place: str | None, session: str | None) -> list[str]:
        """The whole command line.

        Args:
            model: The model that the session names.
            place: Where pi keeps the conversation; None where it keeps none.
            session: The file of a conversation to go on with.

        Raises:
            BadOptions: `command` is empty.
            FileNotFoundError: pi is not installed.
        """
        wishes = {
            "--provider": self.provider,
            "--model": model or self.model,
            "--tools": None if self.tools is None else ",".join(self.tools),
            "--append-system-prompt": self.append_system_prompt,
            "--session-dir": place,
            "--session": session,
        }
        words = [*self._program(), "--mode", "rpc", *([] if place else ["--no-session"])]
        for option, value in wishes.items():
            words += [] if value is None else [option, value]
        return [*words, *self.arguments]

    def variables(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The environment of the process.

        Raises:
            BadOptions: `home` is not there.
        """
        variables = {**inherited, **self.environment}
        if self.home is not None:
            home = Path(self.home).expanduser()
            if not home.is_dir():
                raise BadOptions(f"The configured `home` of this pi agent, {home}, is not a directory. Create it.")
            variables["PI_CODING_AGENT_DIR"] = str(home)
        return variables

    def _program(self) -> list[str]:
        first, *more = [self.command] if isinstance(self.command, str) else self.command or ["pi"]
        found = shutil.which(str(Path(first).expanduser()))
        if found is None and self.command is None:
            raise FileNotFoundError(INSTALL)
        if found is None:
            raise FileNotFoundError(f"The configured `command` of this pi agent, {first!r}, is not a program.")
        return [found, *more]

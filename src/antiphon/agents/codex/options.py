"""How the configuration describes a Codex agent, and where the binary is found."""

import importlib.util
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from antiphon.agents.process import LINE_LIMIT

_Plain = str | bool | int | float

INSTALL = "Codex is not installed here. Get it with: pip install 'antiphon[codex]'"


class BadOptions(ValueError):
    """The agent's table of the configuration is wrong; the text is for a person."""


class CodexOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the table `[agents.NAME]` of an agent with `adapter = "codex"` may hold besides.

    Attributes:
        command: The program, or the program and its first arguments. By default the one that
            `pip install 'antiphon[codex]'` brings, else `codex` on the PATH.
        home: Codex's own directory (CODEX_HOME) with its login, configuration and conversations. By default the
            user's `~/.codex`.
        approval_policy: When Codex asks before it acts. By default as Codex's own configuration says.
        sandbox: What Codex's commands may touch. By default as Codex's own configuration says.
        environment: Further variables of the process, such as the key of a model provider.
        config: What Codex's `config.toml` would say, as a table; wins over the file.
        network_patience_s: How long Codex may try to reach its model, in vain and without a word of the answer, until
            its turn fails. Codex by itself would try for ever.
        line_limit: Bytes of a line of Codex's; a longer one fails its turn.
    """

    command: str | list[str] | None = None
    home: str | None = None
    approval_policy: Literal["untrusted", "on-request", "never"] | None = None
    sandbox: Literal["read-only", "workspace-write", "danger-full-access"] | None = None
    environment: dict[str, str] = {}
    config: dict[str, Any] = {}
    network_patience_s: float = 60.0
    line_limit: int = LINE_LIMIT

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> "CodexOptions":
        """Check a table of the configuration.

        Raises:
            BadOptions: A key is unknown or has a bad value.
        """
        try:
            return msgspec.convert(dict(table), cls)
        except msgspec.ValidationError as error:
            raise BadOptions(f"The configuration of this Codex agent is wrong: {error}.") from error

    def arguments(self) -> list[str]:
        """The whole command line.

        Raises:
            BadOptions: A value of `config` can't be written down as TOML.
            FileNotFoundError: Codex is not installed.
        """
        overrides = [word for setting in _settings(self.config) for word in ("-c", setting)]
        return [*self._program(), "app-server", *overrides]

    def variables(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The environment of the process.

        Raises:
            BadOptions: `home` is not there.
        """
        variables = {**inherited, **self.environment}
        if self.home is not None:
            home = Path(self.home).expanduser()
            if not home.is_dir():
                raise BadOptions(f"The configured `home` of this Codex agent, {home}, is not a directory. Create it.")
            variables["CODEX_HOME"] = str(home)
        if self.command is None and (tools := _bundled("bundled_path_dir")) is not None:
            variables["PATH"] = os.pathsep.join(filter(None, (str(tools), variables.get("PATH"))))
        return variables

    def _program(self) -> list[str]:
        if self.command is not None:
            first, *more = [self.command] if isinstance(self.command, str) else self.command or [""]
            found = shutil.which(str(Path(first).expanduser()))
            if found is None:
                raise FileNotFoundError(f"The configured `command` of this Codex agent, {first!r}, is not a program.")
            return [found, *more]
        found = _bundled("bundled_codex_path") or shutil.which("codex")
        if found is None:
            raise FileNotFoundError(INSTALL)
        return [str(found)]


def _bundled(what: str) -> Path | None:
    """What the package `openai-codex-cli-bin` brings, if it is installed: its binary, or the directory of its tools."""
    if importlib.util.find_spec("codex_cli_bin") is None:
        return None
    package = importlib.import_module("codex_cli_bin")
    try:
        return getattr(package, what)()
    except (AttributeError, FileNotFoundError):
        return None  # another version of the package, or a damaged one: the PATH is asked next


def _settings(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The entries of a table as `dotted.path=TOML`, the form that `codex -c` wants."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _settings(value, f"{prefix}{key}.")  # pyright: ignore[reportUnknownArgumentType]
        else:
            yield f"{prefix}{key}={_toml(f'{prefix}{key}', value)}"


def _toml(name: str, value: Any) -> str:
    """A value as TOML. Of what a TOML file can hold, only dates and tables in arrays differ from JSON."""
    try:
        msgspec.convert(value, _Plain | list[_Plain])
    except msgspec.ValidationError:
        plain = "a string, a number, true, false or a list of them"
        raise BadOptions(f"`config.{name}` of this Codex agent must be {plain}.") from None
    return msgspec.json.encode(value).decode()

"""How the configuration describes a Claude Code agent, and where the binary is found."""

import importlib.util
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from antiphon.agents.process import LINE_LIMIT

INSTALL = "Claude Code is not installed here. Get it with: pip install 'antiphon[claude]'"
PROTOCOL = (
    "-p --input-format stream-json --output-format stream-json --verbose --include-partial-messages "
    "--replay-user-messages --permission-prompt-tool stdio"
).split()
UNASKING = frozenset({"bypassPermissions", "dontAsk"})
"""The modes in which Claude Code asks nobody."""

HEAD = 64 * 1024
"""Of a conversation's file: so far into it at most the first message begins."""


class BadOptions(ValueError):
    """The agent's table of the configuration is wrong; the text is for a person."""


class ClaudeOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the table `[agents.NAME]` of an agent with `adapter = "claude"` may hold besides.

    Attributes:
        command: The program, or the program and its first arguments. By default the one that
            `pip install 'antiphon[claude]'` brings, else `claude` on the PATH.
        home: Claude Code's own directory (CLAUDE_CONFIG_DIR) with its login, settings and conversations. By default
            the user's `~/.claude`.
        permission_mode: What it may do unasked. By default as its own settings say. As root it refuses
            `bypassPermissions`, unless `environment` has `IS_SANDBOX = "1"`.
        allowed_tools: What it may do unasked besides, such as `Edit` or `Bash(git log *)`.
        append_system_prompt: What is added to its system prompt.
        max_turns: How often it may ask its model in one turn; one more fails the turn.
        environment: Further variables of the process, such as `ANTHROPIC_API_KEY` or `CLAUDE_CODE_MAX_RETRIES`.
        arguments: Further arguments of the command line.
        line_limit: Bytes of a line of Claude Code's; a longer one fails its turn.
    """

    command: str | list[str] | None = None
    home: str | None = None
    permission_mode: (
        Literal["default", "manual", "acceptEdits", "auto", "plan", "dontAsk", "bypassPermissions"] | None
    ) = None
    allowed_tools: list[str] = []
    append_system_prompt: str | None = None
    max_turns: int | None = None
    environment: dict[str, str] = {}
    arguments: list[str] = []
    line_limit: int = LINE_LIMIT

    @classmethod
    def read(cls, table: Mapping[str, Any]) -> "ClaudeOptions":
        """Check a table of the configuration.

        Raises:
            BadOptions: A key is unknown or has a bad value.
        """
        try:
            return msgspec.convert(dict(table), cls)
        except msgspec.ValidationError as error:
            raise BadOptions(f"The configuration of this Claude Code agent is wrong: {error}.") from error

    def command_line(
        self, model: str | None, session_id: str, *, resume: bool, fork_from: str | None = None
    ) -> list[str]:
        """The whole command line. `fork_from` is where a new session begins: another one's id and a message's uuid.

        Raises:
            BadOptions: `command` is empty.
            FileNotFoundError: Claude Code is not installed.
        """
        words = [*self._program(), *PROTOCOL]
        if self.allowed_tools:
            words += ["--allowedTools", *self.allowed_tools]  # ends at the next option
        wishes = {
            "--model": model,
            "--permission-mode": self.permission_mode,
            "--append-system-prompt": self.append_system_prompt,
            "--max-turns": self.max_turns,
            "--resume" if resume else "--session-id": session_id,
        }
        if fork_from is not None:
            origin, _, last_word = fork_from.partition(" ")
            words += ["--fork-session", f"--resume={origin}", f"--resume-session-at={last_word}"]
        for option, value in wishes.items():
            words += [] if value is None else [f"{option}={value}"]
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
                raise BadOptions(
                    f"The configured `home` of this Claude Code agent, {home}, is not a directory. Create it."
                )
            variables["CLAUDE_CONFIG_DIR"] = str(home)
        return variables

    def keeps(self, inherited: Mapping[str, str], session_id: str) -> bool:
        """Whether Claude Code has a message of this session on disk, in `projects/DIRECTORY/ID.jsonl` in its home.

        The file begins with remarks of its own; as long as there are only those, it can't resume the session.
        """
        variables = self.variables(inherited)
        home = variables.get("CLAUDE_CONFIG_DIR") or Path(variables.get("HOME") or Path.home(), ".claude")
        return any(_has_a_message(file) for file in Path(home, "projects").glob(f"*/{session_id}.jsonl"))

    def _program(self) -> list[str]:
        if self.command is not None:
            first, *more = [self.command] if isinstance(self.command, str) else self.command or [""]
            found = shutil.which(str(Path(first).expanduser()))
            if found is None:
                raise FileNotFoundError(
                    f"The configured `command` of this Claude Code agent, {first!r}, is not a program."
                )
            return [found, *more]
        found = _bundled() or shutil.which("claude")
        if found is None:
            raise FileNotFoundError(INSTALL)
        return [str(found)]


def _has_a_message(file: Path) -> bool:
    try:
        with file.open("rb") as conversation:
            return b'"type":"user"' in conversation.read(HEAD)
    except OSError:
        return False


def _bundled() -> Path | None:
    """The binary that the package `claude-agent-sdk` brings, if it is installed. The package is not imported."""
    spec = importlib.util.find_spec("claude_agent_sdk")
    for directory in (spec and spec.submodule_search_locations) or ():
        binary = Path(directory) / "_bundled" / "claude"
        if binary.is_file():
            return binary
    return None

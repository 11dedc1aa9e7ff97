"""The adapter: finds Claude Code, starts it, and sees that it is there."""

import uuid
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from antiphon.agents.claude import protocol
from antiphon.agents.claude.conversation import UNPROVEN, Conversation
from antiphon.agents.claude.options import UNASKING, BadOptions, ClaudeOptions
from antiphon.agents.claude.running import RunningClaude
from antiphon.agents.environment import session_variables
from antiphon.agents.loopback import Loopback
from antiphon.agents.pipes import Overlong
from antiphon.agents.process import AgentProcess, StartFailed
from antiphon.ports.agent import AgentSpec, Capabilities, OpenFailed
from antiphon.system import SystemIds

INITIALIZE = "antiphon-initialize"
MEANWHILE_MAX = 1_000
STDERR_SHOWN = 500
NOT_FOUND = "No conversation found"
"""What Claude Code says of a session that it has not on disk."""
CANT_GO_ON = (
    "Claude Code can't go on with this conversation (its session {}): {} "
    "If it is gone for good, `clear` the session to begin a new one."
)
FORGOTTEN = "Claude Code was ended before it had written anything of this conversation down. It begins anew."


class ClaudeAgent:
    """Claude Code as an `Agent`: one process for each open session.

    Args:
        name: The agent's name in the configuration.
        options: Its table of the configuration; see `ClaudeOptions`.

    Raises:
        BadOptions: The table is wrong.
    """

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.name = name
        self._table = dict(options)
        self._options = ClaudeOptions.read(options)
        self._ids = SystemIds()
        self.capabilities = Capabilities(
            steer=True,
            interrupt=True,
            resume=True,
            permissions=self._options.permission_mode not in UNASKING,
            rollback=False,
            usage=True,
            fork=True,
        )

    @classmethod
    def loopback(cls, options: Mapping[str, Any], model_url: str, directory: Path) -> Loopback:
        """Claude Code with the model server for a model, which asks nobody and may do anything."""
        home = directory / "claude"
        home.mkdir(exist_ok=True)
        environment = {
            **options.get("environment", {}),
            "ANTHROPIC_BASE_URL": model_url,
            "ANTHROPIC_API_KEY": "not a key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "IS_SANDBOX": "1",
        }
        changed = {"home": str(home), "permission_mode": "bypassPermissions", "environment": environment}
        return Loopback(
            options={**options, **changed},
            stubborn=lambda _: "[[say here]] [[shell trap '' TERM HUP INT; sleep 300; sleep 300]] never said",
            spawns=lambda: "[[shell (trap '' TERM; setsid sleep 300) </dev/null >/dev/null 2>&1 & true]] spawned",
        )

    async def missing(self) -> str | None:
        """Look for the program and for the directory of its home."""
        try:
            self._options.variables({})
            self._options.command_line(None, "", resume=False)
        except (BadOptions, FileNotFoundError) as error:
            return str(error)
        return None

    async def open(self, spec: AgentSpec, resume_token: str | None) -> RunningClaude:
        """Start Claude Code with a new session, or with the one that `resume_token` names.

        A session that is gone is not replaced by a new one: nobody would tell whoever talks there that all is
        forgotten. One that Claude Code never wrote down, because it was ended in its first turn, begins anew.
        """
        try:
            options = ClaudeOptions.read({**self._table, **spec.options})
            return await self._open(options, spec, resume_token)
        except (BadOptions, FileNotFoundError, StartFailed) as error:
            raise OpenFailed(str(error)) from error

    async def _open(self, options: ClaudeOptions, spec: AgentSpec, resume_token: str | None) -> RunningClaude:
        unproven = resume_token is not None and resume_token.startswith(UNPROVEN)
        session_id = (resume_token or "").removeprefix(UNPROVEN)
        if resume_token is not None:
            try:
                return await self._start(options, spec, session_id, resume=True)
            except _Unanswered as error:
                if not unproven or NOT_FOUND not in str(error):
                    raise OpenFailed(CANT_GO_ON.format(session_id, error)) from error
        try:
            remark = FORGOTTEN if unproven and not spec.fork_from else None
            return await self._start(options, spec, session_id or self._new_id(), resume=False, remark=remark)
        except _Unanswered as error:
            raise OpenFailed(str(error)) from error

    def _new_id(self) -> str:
        return str(uuid.UUID(self._ids.new("uuid").partition("_")[2]))

    async def _start(
        self, options: ClaudeOptions, spec: AgentSpec, session_id: str, *, resume: bool, remark: str | None = None
    ) -> RunningClaude:
        """Start it and see that it is there; `remark` is told to whoever listens.

        Raises:
            _Unanswered: It is not.
        """
        environment = {**spec.environment, **session_variables(spec)}
        process = await AgentProcess.start(
            options.command_line(spec.model, session_id, resume=resume, fork_from=None if resume else spec.fork_from),
            cwd=spec.cwd,
            environment=options.variables(environment),
            line_limit=options.line_limit,
        )
        on_disk = partial(options.keeps, environment)
        conversation = Conversation(session_id, self._ids, resumed=resume, on_disk=on_disk)
        if remark is not None:
            conversation.remark(remark)
        lines = process.lines()
        try:
            await _begin(process, lines, conversation)
        except _Unanswered as error:
            await process.end(0)
            raise _Unanswered(_with_stderr(str(error), process)) from error
        except BaseException:
            await process.end(0)
            raise
        return RunningClaude(process, lines, conversation)


class _Unanswered(Exception):
    """Claude Code does not begin; the text says why."""


async def _begin(process: AgentProcess, lines: AsyncIterator[bytes | Overlong], conversation: Conversation) -> None:
    """Ask whether it is there; what else is said meanwhile is for the conversation.

    Raises:
        _Unanswered: It is not.
    """
    process.write_line(protocol.request(INITIALIZE, "initialize"))
    why = ""
    for_later = MEANWHILE_MAX
    async for line in lines:
        known = None
        if not isinstance(line, Overlong):
            try:
                known = protocol.read(line)
            except protocol.BadLine:
                known = None  # the conversation remarks on it
        match known:
            case protocol.ControlResponse(response=response) if response.request_id == INITIALIZE:
                if response.subtype == "error":
                    raise _Unanswered(f"Claude Code does not want to begin: {response.error}.")
                return
            case protocol.Result(is_error=True):
                why = "; ".join(known.errors) or known.result or ""
            case _:
                conversation.receive(line)
                for_later -= 1
        if not for_later:
            raise _Unanswered("Claude Code says much, but does not answer.")
    raise _Unanswered(why or f"Claude Code ended ({process.ending}) before it answered.")


def _with_stderr(why: str, process: AgentProcess) -> str:
    """Why it could not be opened, with the last of what it wrote to stderr."""
    stderr = process.stderr().strip()[-STDERR_SHOWN:]
    return f"{why} It wrote: {stderr}" if stderr and why not in stderr else stderr or why

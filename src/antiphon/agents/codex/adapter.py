"""The adapter: finds Codex, starts it, and leads it to its thread."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from antiphon import __version__
from antiphon.agents import jsonrpc
from antiphon.agents.codex import protocol
from antiphon.agents.codex.conversation import Conversation
from antiphon.agents.codex.options import BadOptions, CodexOptions
from antiphon.agents.codex.running import RunningCodex
from antiphon.agents.environment import session_variables
from antiphon.agents.loopback import MODEL, Loopback
from antiphon.agents.pipes import Overlong
from antiphon.agents.process import AgentProcess, StartFailed
from antiphon.ports.agent import AgentSpec, Capabilities, OpenFailed

WRITER_PATIENCE_S = 5.0
WRITER_PAUSE_S = 0.1
"""How long, and how often, a thread is asked for whose former process has not let go of it."""
HOME_IN_USE = "failed to initialize"
HOME_PAUSES_S = (0.1, 0.3, 0.6, 1.0, 2.0)
"""What Codex says when another one sets up a new home in the same moment, and how long to wait before trying again."""
MEANWHILE_MAX = 1_000
STDERR_SHOWN = 500


class CodexAgent:
    """Codex as an `Agent`: one `codex app-server` process for each open session.

    Args:
        name: The agent's name in the configuration.
        options: Its table of the configuration; see `CodexOptions`.

    Raises:
        BadOptions: The table is wrong.
    """

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.name = name
        self._table = dict(options)
        self._options = CodexOptions.read(options)
        self.capabilities = Capabilities(
            steer=True,
            interrupt=True,
            resume=True,
            permissions=self._options.approval_policy != "never",
            rollback=False,
            usage=True,
            fork=True,
        )

    @classmethod
    def loopback(cls, options: Mapping[str, Any], model_url: str, directory: Path) -> Loopback:
        """Codex with the model server for a model, which asks nobody and may do anything."""
        home = directory / "codex"
        home.mkdir(exist_ok=True)
        provider: dict[str, Any] = {
            "name": "loopback",
            "base_url": f"{model_url}/v1",
            "env_key": "LOOPBACK_KEY",
            "wire_api": "responses",
            "request_max_retries": 1,
            "stream_max_retries": 1,
        }
        changed: dict[str, Any] = {
            "home": str(home),
            "approval_policy": "never",
            "sandbox": "danger-full-access",
            "environment": {**options.get("environment", {}), "LOOPBACK_KEY": "not a key"},
            "config": {
                **options.get("config", {}),
                "model": MODEL,
                "model_provider": "loopback",
                "model_providers": {"loopback": provider},
                "analytics": {"enabled": False},
                "features": {"plugins": False},
            },
        }
        return Loopback(
            options={**options, **changed},
            stubborn=lambda _: "[[say here]] [[shell trap '' TERM HUP INT; sleep 300; sleep 300]] never said",
            spawns=lambda: "[[shell (trap '' TERM; setsid sleep 300) </dev/null >/dev/null 2>&1 & true]] spawned",
        )

    async def missing(self) -> str | None:
        """Look for the program and for the directory of its home."""
        try:
            self._options.variables({})
            self._options.arguments()
        except (BadOptions, FileNotFoundError) as error:
            return str(error)
        return None

    async def open(self, spec: AgentSpec, resume_token: str | None) -> RunningCodex:
        """Start Codex with a new thread, or with the thread that `resume_token` names.

        A thread that is gone is not replaced by a new one: nobody would tell whoever talks there that all is forgotten.
        """
        try:
            options = CodexOptions.read({**self._table, **spec.options})
            for pause_s in HOME_PAUSES_S:
                try:
                    return await self._start(options, spec, resume_token)
                except jsonrpc.Refused as error:
                    if HOME_IN_USE not in str(error):
                        raise
                await asyncio.sleep(pause_s)
            return await self._start(options, spec, resume_token)
        except (BadOptions, FileNotFoundError, StartFailed, jsonrpc.Refused) as error:
            raise OpenFailed(str(error)) from error

    async def _start(self, options: CodexOptions, spec: AgentSpec, resume_token: str | None) -> RunningCodex:
        """Start Codex and lead it to its thread.

        Raises:
            Refused: Codex does not want, or is gone; with the last of what it wrote to stderr.
            BadOptions, FileNotFoundError, StartFailed: It can't be started.
        """
        environment = options.variables({**spec.environment, **session_variables(spec)})
        process = await AgentProcess.start(
            options.arguments(), cwd=spec.cwd, environment=environment, line_limit=options.line_limit
        )
        opening = _Opening(process)
        try:
            conversation = await opening.lead(spec, options, resume_token)
        except jsonrpc.Refused as error:
            await process.end(0)
            raise jsonrpc.Refused(_with_stderr(str(error), process)) from error
        except BaseException:
            await process.end(0)
            raise
        return RunningCodex(process, opening.lines, conversation, options.network_patience_s)


class _Opening:
    """The first requests, one after the other."""

    def __init__(self, process: AgentProcess) -> None:
        self._process = process
        self._requests = 0
        self._meanwhile: list[bytes] = []
        self.lines: AsyncIterator[bytes | Overlong] = process.lines()

    async def lead(self, spec: AgentSpec, options: CodexOptions, resume_token: str | None) -> Conversation:
        """Introduce the host, then start the thread or resume it.

        Raises:
            Refused: Codex does not want, or is gone.
        """
        client = {"name": "antiphon", "title": "antiphon", "version": __version__}
        # `thread/backgroundTerminals/*` belongs to the experimental part of the protocol.
        await self._ask("initialize", {"clientInfo": client, "capabilities": {"experimentalApi": True}})
        self._process.write_line(protocol.WRITE.notification("initialized"))
        wishes = {
            "cwd": spec.cwd,
            "model": spec.model,
            "approvalPolicy": options.approval_policy,
            "sandbox": options.sandbox,
        }
        params = {name: value for name, value in wishes.items() if value is not None}
        if resume_token is None and spec.fork_from is not None:
            thread = await self._fork(params, spec.fork_from)
        elif resume_token is None:
            thread = await self._ask("thread/start", params, protocol.ThreadAnswer)
        else:
            thread = await self._resume({**params, "threadId": resume_token, "excludeTurns": True})
        kept_on_disk = resume_token is not None
        conversation = Conversation(thread.thread.id, requests=self._requests, kept_on_disk=kept_on_disk)
        for line in self._meanwhile:
            conversation.receive(line)
        return conversation

    async def _fork(self, params: dict[str, Any], mark: str) -> protocol.ThreadAnswer:
        """Begin a thread where a turn of another one ended, which may be in use."""
        thread_id, _, turn_id = mark.partition(" ")
        origin = {"threadId": thread_id, "lastTurnId": turn_id, "excludeTurns": True}
        try:
            return await self._ask("thread/fork", {**params, **origin}, protocol.ThreadAnswer)
        except jsonrpc.Refused as error:
            raise jsonrpc.Refused(
                f"Codex can't begin where that turn ended (thread {thread_id}, turn {turn_id}): {error}."
            ) from error

    async def _resume(self, params: dict[str, Any]) -> protocol.ThreadAnswer:
        """Resume a thread. Codex lets only one process write to it, and one that was just ended may hold it still."""
        for _ in range(int(WRITER_PATIENCE_S / WRITER_PAUSE_S)):
            try:
                return await self._ask("thread/resume", params, protocol.ThreadAnswer)
            except jsonrpc.Refused as error:
                if "active writer" in str(error):
                    await asyncio.sleep(WRITER_PAUSE_S)
                    continue
                raise jsonrpc.Refused(
                    f"Codex can't go on with this conversation (thread {params['threadId']}): {error}. "
                    "If it is gone for good, `clear` the session to begin a new one."
                ) from error
        raise jsonrpc.Refused(
            f"Another process is using this conversation (Codex's thread {params['threadId']}). End it first."
        )

    async def _ask(self, method: str, params: dict[str, Any], kind: type[msgspec.Struct] = protocol.Wire) -> Any:
        """Send a request and wait for its answer; what else is said meanwhile is for the conversation."""
        self._requests += 1
        self._process.write_line(protocol.WRITE.request(self._requests, method, params))
        async for line in self.lines:
            if isinstance(line, Overlong):
                raise jsonrpc.Refused(f"Codex's answer to {method} is over the limit ({line.size} bytes).")
            try:
                message = jsonrpc.read(line)
            except jsonrpc.BadLine:
                message = None
            if isinstance(message, jsonrpc.Response) and message.id == self._requests:
                return message.read(kind)
            self._meanwhile.append(line)
            if len(self._meanwhile) > MEANWHILE_MAX:
                raise jsonrpc.Refused(f"Codex says much, but does not answer {method}.")
        raise jsonrpc.Refused(f"Codex ended ({self._process.ending}) before it answered {method}.")


def _with_stderr(text: str, process: AgentProcess) -> str:
    """The text, and the last of what Codex wrote to stderr: a broken configuration is told there."""
    stderr = process.stderr().strip()[-STDERR_SHOWN:]
    return f"{text} It wrote: {stderr}" if stderr else text

"""The first requests to an ACP agent, one after the other, until its session can take prompts."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from antiphon import __version__
from antiphon.agents import jsonrpc
from antiphon.agents.acp import protocol, troubles
from antiphon.agents.acp.choices import NotOffered, choices, current_mode
from antiphon.agents.acp.conversation import Conversation
from antiphon.agents.acp.options import AcpOptions
from antiphon.agents.pipes import Overlong
from antiphon.agents.process import AgentProcess

MEANWHILE_MAX = 10_000
"""How many lines may come before an answer: one that loads a session tells all of it anew."""
STDERR_SHOWN = 500
LAST_WORDS_S = 1.0
CLIENT: dict[str, Any] = {
    "protocolVersion": protocol.VERSION,
    "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
    "clientInfo": {"name": "antiphon", "title": "antiphon", "version": __version__},
}


class NotOpened(Exception):
    """The agent does not begin; the text is for a person."""


class Opening:
    """Leads an agent to its session.

    Args:
        process: The agent, just started.
        options: What it is configured to.

    Attributes:
        lines: What it says; the conversation's from the end of the opening on.
    """

    def __init__(self, process: AgentProcess, options: AcpOptions) -> None:
        self._process = process
        self._options = options
        self._requests = 0
        self._meanwhile: list[bytes] = []
        self._ways_to_log_in: list[protocol.AuthMethod] = []
        self.lines: AsyncIterator[bytes | Overlong] = process.lines()

    async def lead(self, cwd: str, model: str | None, resume_token: str | None) -> Conversation:
        """Introduce the host, then make a session, or go on with the one that the token names.

        Raises:
            NotOpened: The agent does not want, can't, or is gone.
        """
        try:
            return await self._lead(cwd, model, resume_token)
        except jsonrpc.Refused as error:
            raise NotOpened(self._told(self._why(error))) from error
        except NotOffered as error:
            raise NotOpened(str(error)) from error

    async def _lead(self, cwd: str, model: str | None, resume_token: str | None) -> Conversation:
        offers: protocol.Initialized = await self._ask("initialize", CLIENT, protocol.Initialized)
        if offers.protocol_version != protocol.VERSION:
            raise NotOpened(
                f"The agent speaks version {offers.protocol_version} of ACP, antiphon speaks version "
                f"{protocol.VERSION}. Use a version of the agent that speaks this one."
            )
        self._ways_to_log_in = offers.auth_methods
        if self._options.auth_method is not None:
            await self._ask("authenticate", {"methodId": self._options.auth_method})
        place = {"cwd": cwd, "mcpServers": self._options.mcp_servers}
        resuming = _resuming(offers.agent_capabilities)
        if resume_token is None:
            session: protocol.Session = await self._ask("session/new", place, protocol.Session)
        else:
            session = await self._resume(resuming, resume_token, place)
        session_id = resume_token or session.session_id
        if session_id is None:
            raise jsonrpc.Refused("it does not name the session that it made")
        if resume_token is not None:
            self._meanwhile.clear()  # what was said in the session before is told anew, and is known
        for choice in choices(session, self._options.mode, model, self._options.config):
            await self._ask(choice.method, {"sessionId": session_id, **choice.params})
        conversation = Conversation(
            session_id,
            requests=self._requests,
            resumable=resuming is not None,
            resumed=resume_token is not None,
            mode=self._options.mode or current_mode(session),
        )
        conversation.ways_to_log_in = offers.auth_methods
        for line in self._meanwhile:
            conversation.receive(line)
        return conversation

    async def _resume(self, method: str | None, token: str, place: Mapping[str, Any]) -> protocol.Session:
        """Go on with a session. One that is gone is not replaced by a new one: nobody would tell whoever talks there
        that all is forgotten.
        """
        if method is None:
            raise NotOpened(
                "The agent can't go on with an old conversation any more. `clear` the session to begin anew."
            )
        try:
            return await self._ask(method, {"sessionId": token, **place}, protocol.Session)
        except jsonrpc.Refused as error:
            raise NotOpened(
                f"The agent can't go on with this conversation (its session {token}): {self._told(self._why(error))} "
                "If it is gone for good, `clear` the session to begin a new one."
            ) from error

    async def _ask(self, method: str, params: Mapping[str, Any], kind: type[msgspec.Struct] = protocol.Wire) -> Any:
        """Send a request and wait for its answer; what else is said meanwhile is for the conversation."""
        self._requests += 1
        number, meanwhile = self._requests, 0
        self._process.write_line(protocol.WRITE.request(number, method, params))
        async for line in self.lines:
            if isinstance(line, Overlong):
                if jsonrpc.answered(line.head) == number:
                    raise jsonrpc.Refused(troubles.too_long(line.size))
                continue
            try:
                message = jsonrpc.read(jsonrpc.mended(line) or line)
            except jsonrpc.BadLine:
                message = None  # the conversation remarks on it
            match message:
                case jsonrpc.Response(id=answered) if answered == number:
                    return _read(message, kind)
                case jsonrpc.Call(id=int() | str() as asked):
                    refusal = f"antiphon does not answer {message.method} before there is a session."
                    self._process.write_line(protocol.WRITE.refusal(asked, refusal))
                case _:
                    self._meanwhile.append(line)
                    meanwhile += 1
            if meanwhile > MEANWHILE_MAX:
                raise NotOpened(f"The agent says much, but does not answer {method}.")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await self._process.wait()  # its last words come beside the end of its output
        raise NotOpened(self._told(f"The agent ended ({self._process.ending}) before it answered {method}."))

    def _why(self, error: jsonrpc.Refused) -> str:
        return troubles.wants_login(error.fault, self._ways_to_log_in) or f"It says: {troubles.told(error.fault)}"

    def _told(self, why: str) -> str:
        """Why it could not be opened, with the last of what it wrote to stderr."""
        stderr = self._process.stderr().strip()[-STDERR_SHOWN:]
        return f"{why} It wrote: {stderr}" if stderr and stderr not in why else why


def _resuming(capabilities: protocol.AgentCapabilities) -> str | None:
    """How the agent goes on with a session. `session/load` would also tell all that was said in it."""
    if capabilities.session_capabilities.resume is not None:
        return "session/resume"
    return "session/load" if capabilities.load_session else None


def _read(response: jsonrpc.Response, kind: type[msgspec.Struct]) -> Any:
    """What was answered; `null` and nothing at all stand for an answer without fields."""
    if response.fault is None and bytes(response.result).strip() == b"null":
        return kind()
    return response.read(kind)

"""The adapter: starts a child process for each open session, which talks to the endpoint."""

import re
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from antiphon.agents.conversing import RunningConversation
from antiphon.agents.environment import session_variables
from antiphon.agents.loopback import Loopback
from antiphon.agents.openai import protocol as p
from antiphon.agents.openai.conversation import Conversation
from antiphon.agents.openai.options import BadOptions, ChatOptions, OpenAIOptions, check, read, secret
from antiphon.agents.pipes import Overlong
from antiphon.agents.process import LINE_LIMIT, AgentProcess, StartFailed
from antiphon.ports.agent import AgentSpec, Capabilities, OpenFailed
from antiphon.ports.ids import Ids
from antiphon.system import SystemIds

RUN = "import sys; sys.path[:0] = {paths!r}; from {program} import main; main()"
PROGRAM = "antiphon.agents.openai.program"
TOKEN = re.compile(r"chat_[0-9a-f]{32}")
MARK = re.compile(r"([\w-]+)/(chat_[0-9a-f]{32}) (\S+)")
"""Where a conversation stood: the name of its session's directory, its transcript, a turn."""
STDERR_SHOWN = 500


class OpenAIAgent:
    """A model behind an OpenAI-compatible endpoint as an `Agent`: one child process for each open session.

    Args:
        name: The agent's name in the configuration.
        options: Its table of the configuration; see `OpenAIOptions`.

    Raises:
        BadOptions: The table is wrong.
    """

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.name = name
        self._options = read(OpenAIOptions, options, "openai")
        check(self._options)
        self._ids = SystemIds()
        self.capabilities = capabilities(self._options)

    @classmethod
    def loopback(cls, options: Mapping[str, Any], model_url: str, directory: Path) -> Loopback:  # noqa: ARG003
        """As `antiphon.agents.loopback` says: the same table with another address, no keys and no tools."""
        kept = {name: value for name, value in options.items() if name not in {"headers", "headers_env", "mcp"}}
        return Loopback(options={**kept, "base_url": f"{model_url}/v1", "api_key_env": "", "retries": 1})

    async def missing(self) -> str | None:
        """Look for the key, and for the library that MCP servers need."""
        return self._options.missing()

    async def open(self, spec: AgentSpec, resume_token: str | None) -> RunningConversation[Conversation]:
        """Begin a conversation, or go on with the one that `resume_token` names. The endpoint is not asked yet.

        One whose transcript is gone is not replaced by a new one: nobody would tell whoever talks there that all is
        forgotten.
        """
        options = self._options
        model = spec.model or options.model
        if model is None:
            raise OpenFailed(f"Agent {self.name!r} needs a model: give the session one, or set `model` in its table.")
        try:
            opening = self._opening(options, model)
        except BadOptions as error:
            raise OpenFailed(str(error)) from error
        return await start(opening, spec, resume_token, environment=options.environment, ids=self._ids)

    def _opening(self, options: OpenAIOptions, model: str) -> p.Open:
        key = options.key()
        from_environment = {name: options.secret(source) for name, source in options.headers_env.items()}
        authorization = {"Authorization": f"Bearer {key}"} if key else {}
        body = {"stream_options": {"include_usage": True}} if options.stream_usage else {}
        return common(
            options,
            environment=options.environment,
            agent=self.name,
            base_url=options.base_url,
            model=model,
            headers={**authorization, **options.headers, **from_environment},
            secrets=[*([key] if key else []), *from_environment.values()],
            body=body,
            context_tokens=options.context_tokens,
            retries=options.retries,
        )


def capabilities(options: ChatOptions) -> Capabilities:
    """What a chat model can do."""
    return Capabilities(steer=True, interrupt=True, resume=True, permissions=options.asks, usage=True, fork=True)


def common(
    options: ChatOptions, *, environment: Mapping[str, str], secrets: list[str], body: dict[str, Any], **more: Any
) -> p.Open:
    """What the child is told, of which these options say a part.

    Raises:
        BadOptions: A secret is not there.
    """
    servers: dict[str, p.Server] = {}
    for name, server in options.mcp.items():
        hidden = {header: secret(source, environment) for header, source in server.headers_env.items()}
        secrets = [*secrets, *hidden.values()]
        servers[name] = p.Server(
            command=server.command, environment=server.environment, url=server.url, headers={**server.headers, **hidden}
        )
    temperature = {} if options.temperature is None else {"temperature": options.temperature}
    return p.Open(
        body={**body, **temperature, **options.parameters},
        secrets=secrets,
        system_prompt=options.system_prompt,
        silence_s=options.silence_s,
        line_limit=options.line_limit,
        max_steps=options.max_steps,
        mcp=servers,
        approve=options.approve,
        mcp_start_timeout_s=options.mcp_start_timeout_s,
        tool_timeout_s=options.tool_timeout_s,
        **more,
    )


async def start(
    opening: p.Open,
    spec: AgentSpec,
    resume_token: str | None,
    *,
    environment: Mapping[str, str],
    ids: Ids,
    program: str = PROGRAM,
) -> RunningConversation[Conversation]:
    """Start the child and lead it to its conversation.

    Raises:
        OpenFailed: It can't be started, or the conversation is not there.
    """
    opening = _with_transcript(opening, spec, resume_token, ids)
    try:
        process = await AgentProcess.start(
            [sys.executable, "-I", "-c", RUN.format(paths=[path for path in sys.path if path], program=program)],
            cwd=spec.cwd,
            environment={**spec.environment, **session_variables(spec), **environment},
            line_limit=LINE_LIMIT,
        )
    except StartFailed as error:
        raise OpenFailed(str(error)) from error
    lines = process.lines()
    try:
        await _begin(process, lines, opening)
    except BaseException:
        await process.end(0)
        raise
    return RunningConversation(opening.agent, process, lines, Conversation(resume_token))


def _with_transcript(opening: p.Open, spec: AgentSpec, resume_token: str | None, ids: Ids) -> p.Open:
    """Say where the transcript is. A new conversation of a session takes the place of those before it."""
    if spec.place is None:
        if resume_token is not None or spec.fork_from is not None:
            raise OpenFailed("This conversation can't be gone on with: nothing is kept here.")
        return opening
    place = Path(spec.place)
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OpenFailed(f"The directory {place} can't be made ({error.strerror}).") from error
    if resume_token is not None and not TOKEN.fullmatch(resume_token):
        raise OpenFailed("This conversation can't be gone on with: it is not one of this agent's.")
    if resume_token is None:
        for old in place.glob("chat_*"):
            old.unlink(missing_ok=True)
    name = resume_token or ids.new("chat")
    origin = _origin(place, spec.fork_from) if spec.fork_from is not None and resume_token is None else None
    return msgspec.structs.replace(
        opening, transcript=str(place / f"{name}.jsonl"), resume=resume_token is not None, origin=origin
    )


def _origin(place: Path, mark: str) -> tuple[str, str]:
    """The transcript and the turn that a mark means: the directories of sessions lie side by side.

    Raises:
        OpenFailed: It is not one of this agent's.
    """
    known = MARK.fullmatch(mark)
    if known is None:
        raise OpenFailed("This conversation can't begin there: the turn is not one of this agent's.")
    session, name, turn_id = known.groups()
    return str(place.parent / session / f"{name}.jsonl"), turn_id


async def _begin(process: AgentProcess, lines: AsyncIterator[bytes | Overlong], opening: p.Open) -> None:
    """Tell the child everything, and wait for its word.

    Raises:
        OpenFailed: It can't go on.
    """
    process.write_line(p.line(opening))
    first = await anext(lines, None)
    if isinstance(first, bytes):
        try:
            refused = p.refusal(first)
        except p.BadLine:
            refused = f"Its process said {first[:STDERR_SHOWN].decode(errors='replace')!r} instead of being ready."
        if refused is None:
            return
        raise OpenFailed(refused)
    stderr = process.stderr().strip()[-STDERR_SHOWN:]
    raise OpenFailed(f"Its process ended ({process.ending}) before it was ready. It wrote: {stderr}")

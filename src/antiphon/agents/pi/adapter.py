"""The adapter: finds pi, starts it, and sees that it is there."""

import json
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from antiphon.agents.conversing import RunningConversation
from antiphon.agents.environment import session_variables
from antiphon.agents.loopback import MODEL, Loopback
from antiphon.agents.pi import protocol
from antiphon.agents.pi.conversation import Conversation
from antiphon.agents.pi.options import BadOptions, PiOptions
from antiphon.agents.pipes import Overlong
from antiphon.agents.process import AgentProcess, StartFailed
from antiphon.ports.agent import AgentSpec, Capabilities, OpenFailed
from antiphon.system import SystemIds

OPENING = "opening"
TOKEN = re.compile(r"[\w.-]+\.jsonl")
MEANWHILE_MAX = 1_000
STDERR_SHOWN = 500


class PiAgent:
    """pi as an `Agent`: one process for each open session.

    Args:
        name: The agent's name in the configuration.
        options: Its table of the configuration; see `PiOptions`.

    Raises:
        BadOptions: The table is wrong.
    """

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.name = name
        self._options = PiOptions.read(options)
        self._ids = SystemIds()
        self.capabilities = Capabilities(interrupt=True, resume=True, usage=True)

    @classmethod
    def loopback(cls, options: Mapping[str, Any], model_url: str, directory: Path) -> Loopback:
        """As `antiphon.agents.loopback` says: pi with the model server for a provider."""
        home = directory / "pi"
        home.mkdir(exist_ok=True)
        provider = {
            "baseUrl": f"{model_url}/v1",
            "api": "openai-completions",
            "apiKey": "not a key",
            "models": [{"id": MODEL}],
        }
        (home / "models.json").write_text(json.dumps({"providers": {"loop": provider}}))
        changed = {"home": str(home), "provider": "loop", "environment": {"PI_OFFLINE": "1"}}
        return Loopback(
            options={**options, **changed},
            stubborn=lambda _: "[[say here]] [[shell trap '' TERM HUP INT; sleep 300; sleep 300]] never said",
            spawns=lambda: "[[shell (trap '' TERM; setsid sleep 300) </dev/null >/dev/null 2>&1 & true]] spawned",
        )

    async def missing(self) -> str | None:
        """Look for the program and for the directory of its home."""
        try:
            self._options.variables({})
            self._options.command_line(None, None, None)
        except (BadOptions, FileNotFoundError) as error:
            return str(error)
        return None

    async def open(self, spec: AgentSpec, resume_token: str | None) -> RunningConversation[Conversation]:
        """Start pi with a new session, or with the one that `resume_token` names.

        A session that is gone is not replaced by a new one: nobody would tell whoever talks there that all is
        forgotten.
        """
        session = _session(spec, resume_token)
        try:
            process = await AgentProcess.start(
                self._options.command_line(spec.model, spec.place, session),
                cwd=spec.cwd,
                environment=self._options.variables({**spec.environment, **session_variables(spec)}),
                line_limit=self._options.line_limit,
            )
        except (BadOptions, FileNotFoundError, StartFailed) as error:
            raise OpenFailed(str(error)) from error
        lines = process.lines()
        try:
            state = await _begin(process, lines)
        except BaseException:
            await process.end(0)
            raise
        kept = state.session_file if spec.place is not None else None
        conversation = Conversation(kept, self._ids, kept_on_disk=session is not None)
        return RunningConversation("pi", process, lines, conversation)


def _session(spec: AgentSpec, resume_token: str | None) -> str | None:
    """The file of the conversation to go on with.

    Raises:
        OpenFailed: It is not there.
    """
    if spec.place is not None:
        try:
            Path(spec.place).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise OpenFailed(f"The directory {spec.place} can't be made ({error.strerror}).") from error
    if resume_token is None:
        return None
    file = Path(spec.place or "", resume_token)
    if spec.place is None or not TOKEN.fullmatch(resume_token) or not file.is_file():
        raise OpenFailed(
            f"pi can't go on with this conversation: its session {resume_token!r} is gone. "
            "`clear` the session to begin a new one."
        )
    return str(file)


async def _begin(process: AgentProcess, lines: AsyncIterator[bytes | Overlong]) -> protocol.State:
    """Ask whether pi is there. What extensions say meanwhile is nobody's affair yet.

    Raises:
        OpenFailed: It is not.
    """
    process.write_line(protocol.command("get_state", OPENING))
    for_later = MEANWHILE_MAX
    async for line in lines:
        for_later -= 1
        if not for_later:
            raise OpenFailed("pi says much, but does not answer.")
        try:
            heard = None if isinstance(line, Overlong) else protocol.read(line)
            if heard is not None and heard.type == "response" and heard.id == OPENING:
                return heard.state()
        except protocol.BadLine:
            continue  # a warning, or a banner
    stderr = process.stderr().strip()[-STDERR_SHOWN:]
    raise OpenFailed(f"pi ended ({process.ending}) before it answered. It wrote: {stderr}")

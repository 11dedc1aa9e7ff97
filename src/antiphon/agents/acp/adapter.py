"""The adapter: starts a program that speaks ACP, and leads it to its session."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from antiphon.agents.acp.loopback import furnish, variables
from antiphon.agents.acp.opening import NotOpened, Opening
from antiphon.agents.acp.options import AcpOptions, BadOptions
from antiphon.agents.acp.running import RunningAcp
from antiphon.agents.environment import clean_environment, session_variables
from antiphon.agents.loopback import Loopback
from antiphon.agents.process import AgentProcess, StartFailed
from antiphon.ports.agent import AgentSpec, Capabilities, OpenFailed

PATIENCE_S = 60.0
"""How long a step of a check may take: opencode alone takes seconds of a processor to begin."""


class AcpAgent:
    """A program that speaks ACP as an `Agent`: one process for each open session.

    Its capabilities are what the protocol has. A program that can neither load nor resume its sessions gives no resume
    token, and one that tells no usage reports none: that is known only once it runs.

    Args:
        name: The agent's name in the configuration.
        options: Its table of the configuration; see `AcpOptions`.

    Raises:
        BadOptions: The table is wrong.
    """

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.name = name
        self._table = dict(options)
        self._options = AcpOptions.read(options)
        self.capabilities = Capabilities(
            steer=False, interrupt=True, resume=True, permissions=True, rollback=False, usage=True
        )

    @classmethod
    def loopback(cls, options: Mapping[str, Any], model_url: str, directory: Path) -> Loopback:
        """The program with the model server for a model, if it is one that goes by the variables known here."""
        furnish(directory)
        environment = {**options.get("environment", {}), **variables(model_url)}
        return Loopback(
            options={**options, "environment": environment},
            model=None,
            stubborn=lambda _: "[[say here]] [[shell trap '' TERM HUP INT; sleep 300; sleep 300]] never said",
            spawns=lambda: "[[shell (trap '' TERM; setsid sleep 300) </dev/null >/dev/null 2>&1 & true]] spawned",
            patience_s=PATIENCE_S,
        )

    async def missing(self) -> str | None:
        """Look for the program."""
        try:
            self._options.command_line(clean_environment())
        except FileNotFoundError as error:
            return str(error)
        return None

    async def open(self, spec: AgentSpec, resume_token: str | None) -> RunningAcp:
        """Start the program with a new session, or with the one that `resume_token` names."""
        try:
            options = AcpOptions.read({**self._table, **spec.options})
            inherited = {**spec.environment, **session_variables(spec)}
            process = await AgentProcess.start(
                options.command_line(inherited),
                cwd=spec.cwd,
                environment=options.variables(inherited),
                line_limit=options.line_limit,
            )
        except (BadOptions, FileNotFoundError, StartFailed) as error:
            raise OpenFailed(str(error)) from error
        opening = Opening(process, options)
        try:
            conversation = await opening.lead(spec.cwd, spec.model, resume_token)
        except NotOpened as error:
            await process.end(0)
            raise OpenFailed(str(error)) from error
        except BaseException:
            await process.end(0)
            raise
        return RunningAcp(self.name, process, opening.lines, conversation)

"""The program or model that answers, as the host sees it."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

import msgspec

from antiphon.core.session import Problem, Usage


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What an adapter can do natively. What it can't, the host does by other true means, or says so.

    Attributes:
        steer: A message can join a running turn.
        interrupt: A running turn can be stopped without killing the process.
        resume: A new process can go on with the conversation of an old one.
        permissions: The agent asks before it acts.
        rollback: A cancelled turn can be taken out of the agent's memory.
        usage: Turns report tokens or cost.
        fork: A new conversation can begin where a turn of another one ended: `Ended.mark` says where that is.
    """

    steer: bool = False
    interrupt: bool = False
    resume: bool = False
    permissions: bool = False
    rollback: bool = False
    usage: bool = False
    fork: bool = False


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What to open: the session it is for, and how the configuration describes the agent.

    Attributes:
        name: The agent's name in the configuration.
        session_id, session_key: For the agent's environment; never for pairing.
        generation: Which transcript of the session this is.
        cwd: The working directory, an existing absolute path.
        model: The model, where the agent takes one.
        settings: The session's settings, as the person set them.
        options: The agent's own table of the configuration (command, timeout, and so on).
        environment: The whole environment of the process. The host's secrets are not in it.
        place: A directory of this session's own, absolute, for what the adapter must keep of it. An adapter that needs
            it makes it; it goes with the session. None where the host keeps nothing.
        fork_from: The mark of a turn, of another session, after which this conversation begins; where it can't, `open`
            fails. It counts until the resume token leads to a conversation.
    """

    name: str
    session_id: str
    session_key: str | None = None
    generation: int = 1
    cwd: str
    model: str | None = None
    settings: Mapping[str, Any] = {}
    options: Mapping[str, Any] = {}
    environment: Mapping[str, str] = {}
    place: str | None = None
    fork_from: str | None = None


MEMORYLESS = "-"
"""The mark of an agent that remembers nothing from turn to turn: any conversation can begin after any turn."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a prompt: a message's text, or a file beside it (`path`, absolute, on this machine)."""

    text: str = ""
    path: str | None = None
    media_type: str | None = None
    message_id: str | None = None


# What an agent says. Everything that belongs to a turn carries the id that `prompt` was given.


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """Something that came from the agent."""


class Text(Said, frozen=True, kw_only=True):
    """A piece of the answer. Pieces are whole characters; their order is the answer's."""

    turn_id: str
    text: str


class Thought(Said, frozen=True, kw_only=True):
    turn_id: str
    text: str


class ToolStarted(Said, frozen=True, kw_only=True):
    turn_id: str
    tool_id: str
    name: str
    input: Any = None


class ToolEnded(Said, frozen=True, kw_only=True):
    """`outcome` is `completed` or `failed`."""

    turn_id: str
    tool_id: str
    outcome: str = "completed"
    output: Any = None


class Used(Said, frozen=True, kw_only=True):
    turn_id: str
    usage: Usage


class Asked(Said, frozen=True, kw_only=True):
    """A permission request. The agent waits until `answer` is called with `request_id`, or its turn is cancelled."""

    turn_id: str
    request_id: str
    question: str
    tool: str | None = None
    options: tuple[dict[str, Any], ...] = ()


class Steered(Said, frozen=True, kw_only=True):
    """What became of a `steer`: `taken` into the running turn, or not. Exactly one for each steer, before
    `Ended`; for one that came when the end was said already, after it and not taken."""

    turn_id: str
    message_id: str
    taken: bool


class Began(Said, frozen=True, kw_only=True):
    """The agent began a turn by itself. The adapter makes up `turn_id` (`Ids.new("turn")` is given to it)."""

    turn_id: str


class Ended(Said, frozen=True, kw_only=True):
    """The agent's turn is over: it completed unless `error` is set; `cancelled` when it says it was cut short.

    `mark`, with `Capabilities.fork`, says where its conversation stands now: opened with that in `AgentSpec.fork_from`,
    and no resume token, an agent begins a conversation of its own from there. It must hold all that takes.
    """

    turn_id: str
    error: Problem | None = None
    cancelled: bool = False
    usage: Usage | None = None
    mark: str | None = None


class Resumable(Said, frozen=True, kw_only=True):
    """From now on this token leads a new process back to the conversation."""

    resume_token: str


class Wrote(Said, frozen=True, kw_only=True):
    """A remark for a person that belongs to no turn, such as a retry of its model call."""

    text: str


class Exited(Said, frozen=True, kw_only=True):
    """The agent is gone, with every process below it; always the last thing said. `detail` may end with a bounded
    tail of its stderr. Settled before: a turn that had not ended will not end otherwise."""

    exit_code: int | None = None
    reason: str
    detail: str = ""


class OpenFailed(Exception):
    """The agent could not be started. The text is for a person: what is missing, and the command to get it."""


class RunningAgent(Protocol):
    """A live conversation with one agent. Owned by one session; its methods are not called concurrently.

    The owner calls `prompt` only when no turn runs, and reads `said` all the time from one task. No method waits for
    the agent to answer: outcomes come through `said`. Every method may be called after the agent died and then does
    nothing: `Exited` says it all. Each method is safe to cancel.
    """

    @property
    def pid(self) -> int | None:
        """The agent's process, where it has one just now."""
        ...

    @property
    def resume_token(self) -> str | None:
        """What a later `open` needs to go on with this conversation; None where it can't."""
        ...

    async def prompt(self, turn_id: str, parts: tuple[Part, ...]) -> None:
        """Begin a turn. Exactly one `Ended` with this id follows, unless `Exited` comes first."""
        ...

    async def steer(self, turn_id: str, message_id: str, parts: tuple[Part, ...]) -> None:
        """Hand a message to the running turn; `Steered` tells what became of it. Only with `Capabilities.steer`."""
        ...

    async def cancel(self, turn_id: str) -> None:
        """Ask, politely, that the turn stop. `Ended` follows when the agent has stopped. May be called again."""
        ...

    async def answer(self, request_id: str, allow: bool, option_id: str | None, note: str | None) -> None:
        """Answer a permission request. A request that is gone is ignored."""
        ...

    async def close(self, patience_s: float) -> None:
        """End the process and all below it: politely, then TERM, then KILL, in at most about `patience_s` seconds.

        Returns when nothing of it runs any more and `Exited` was said. Idempotent. With 0 it kills at once.
        """
        ...

    def said(self) -> AsyncIterator[Said]:
        """Everything the agent says, in order; ends after `Exited`. One reader."""
        ...


class Agent(Protocol):
    """One kind of agent as configured: the adapter."""

    name: str
    capabilities: Capabilities

    async def open(self, spec: AgentSpec, resume_token: str | None) -> RunningAgent:
        """Start the agent, or go on with the conversation that `resume_token` names.

        The owner bounds it with a deadline; on cancellation nothing of it is left running.

        Raises:
            OpenFailed: It can't be started, with a text for a person.
        """
        ...

    async def missing(self) -> str | None:
        """None when the agent can run on this machine; else what is missing and the command that gets it."""
        ...

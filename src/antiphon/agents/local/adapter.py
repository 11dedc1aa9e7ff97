"""The adapter: a child process for each open session, which loads the model and talks to it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from antiphon.agents.conversing import RunningConversation
from antiphon.agents.local.options import LocalOptions
from antiphon.agents.loopback import Loopback
from antiphon.agents.openai import adapter as chat
from antiphon.agents.openai.conversation import Conversation
from antiphon.agents.openai.options import BadOptions, check, read
from antiphon.ports.agent import AgentSpec, OpenFailed
from antiphon.system import SystemIds

PROGRAM = "antiphon.agents.local.program"
LONG = "Tell me a long story about a dragon and a knight."
"""With the model that a package brings, and no chance in it, this is answered with more than 128 tokens."""


class LocalAgent:
    """A small model as an `Agent`: one child process, with the model in it, for each open session.

    Args:
        name: The agent's name in the configuration.
        options: Its table of the configuration; see `LocalOptions`.

    Raises:
        BadOptions: The table is wrong.
    """

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.name = name
        self._options = read(LocalOptions, options, "local")
        check(self._options)
        self._ids = SystemIds()
        self.capabilities = chat.capabilities(self._options)

    @classmethod
    def loopback(cls, options: Mapping[str, Any], model_url: str, directory: Path) -> Loopback:  # noqa: ARG003
        """As `antiphon.agents.loopback` says: it needs no server, and can't be made to say anything in particular."""
        return Loopback(
            options={**options, "answer_tokens": 128, "temperature": 0},
            model=None,
            says=str,
            holds=lambda _gate, _word: LONG,  # no gate holds it, but it takes a while
            recalls=None,
            fails=None,
            answers=False,
            verbatim=False,
            patience_s=120.0,
        )

    async def missing(self) -> str | None:
        """Look for what runs the model, and for its weights."""
        return self._options.missing()

    async def open(self, spec: AgentSpec, resume_token: str | None) -> RunningConversation[Conversation]:
        """Load the model, for a new conversation or the one that `resume_token` names."""
        options = self._options
        missing = options.missing()
        if missing is not None:
            raise OpenFailed(missing)
        try:
            opening = chat.common(
                options,
                environment={},
                agent=self.name,
                model=options.file().stem,
                weights=str(options.file()),
                threads=options.threads or max(1, (os.cpu_count() or 1) // 2),
                secrets=[],
                body={"max_tokens": options.answer_tokens, "stream_options": {"include_usage": True}},
                context_tokens=options.context_tokens,
                answer_tokens=options.answer_tokens,
            )
        except BadOptions as error:
            raise OpenFailed(str(error)) from error
        return await chat.start(opening, spec, resume_token, environment={}, ids=self._ids, program=PROGRAM)

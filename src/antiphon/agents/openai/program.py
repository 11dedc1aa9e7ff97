"""The child process that talks to the model: `python -m antiphon.agents.openai.program`, which the adapter starts.

It reads what the host tells it on stdin and says on stdout what comes of it; `antiphon.agents.openai.protocol` has the
form. It leaves at the end of its input, at once and whatever it does: the transcript on disk is whole at any moment,
and what runs below it is ended by the guard.
"""

import asyncio
import contextlib
import logging
import os
import select
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec

from antiphon.agents.openai import protocol as p
from antiphon.agents.openai.endpoint import Endpoint
from antiphon.agents.openai.toolbox import Toolbox
from antiphon.agents.openai.transcript import End, Missing, Transcript
from antiphon.agents.openai.troubles import Failed, redacted
from antiphon.agents.openai.turn import Conversation, Turn
from antiphon.agents.pipes import Overlong, PipeReader, framed
from antiphon.core.session import Problem
from antiphon.ports.agent import Ended, Resumable, Said, Steered, Wrote

LINE_MAX = 64 << 20
HEED_MAX = 1_000
"""So many rounds of the event loop: no host says that much at once."""


Prepare = Callable[[p.Open], p.Open]


class _OverTheLimit(Exception):
    """A line of the host's is longer than any that it may send."""


class Program:
    """One conversation. At most one turn runs."""

    def __init__(self, settings: p.Open, group: asyncio.TaskGroup, prepare: Prepare) -> None:
        self._settings = settings
        self._prepare = prepare
        self._group = group
        self._turn: Turn | None = None
        self._running: asyncio.Task[None] | None = None
        self._resumable = settings.resume

    async def listen(self, lines: AsyncIterator[bytes | Overlong]) -> None:
        """Do what the host wants, until its input ends."""
        try:
            conversation = self._begin()
        except (Failed, OSError) as error:
            _write(p.line(p.Refused(reason=self._clean(str(error)))))
            return
        _write(p.line(p.Ready()))
        async for line in lines:
            if isinstance(line, Overlong):
                raise _OverTheLimit
            match p.told(line):
                case p.Prompt() as prompt:
                    self._prompt(conversation, prompt)
                case p.Steer() as steer:
                    self._steer(steer)
                case p.Cancel(turn_id=turn_id):
                    self._cancel(turn_id)
                case p.Answer() as answer:
                    if self._turn is not None:
                        self._turn.answer(answer)
                case _:
                    continue

    def _begin(self) -> Conversation:
        transcript = _transcript(self._settings)
        settings = self._settings = self._prepare(self._settings)
        toolbox = Toolbox(
            settings.mcp,
            cwd=str(Path.cwd()),
            start_timeout_s=settings.mcp_start_timeout_s,
            tool_timeout_s=settings.tool_timeout_s,
            remark=self._remark,
        )
        toolbox.start(self._group)
        return Conversation(
            settings=settings,
            endpoint=Endpoint(settings, self._remark),
            toolbox=toolbox,
            transcript=transcript,
            say=self._say,
            begun=self._tell_resumable,
            heed=heed,
            allowed=set(),
        )

    # What the host wants

    def _prompt(self, conversation: Conversation, prompt: p.Prompt) -> None:
        self._turn = Turn(conversation, prompt)
        self._running = self._group.create_task(self._run(conversation, self._turn))

    def _steer(self, steer: p.Steer) -> None:
        if self._turn is None or self._turn.turn_id != steer.turn_id or self._turn.cancelled:
            self._say(Steered(turn_id=steer.turn_id, message_id=steer.message_id, taken=False))
        else:
            self._turn.steer(steer)

    def _cancel(self, turn_id: str) -> None:
        if self._turn is not None and self._running is not None and self._turn.turn_id == turn_id:
            self._turn.cancelled = True
            if self._turn.started:
                self._running.cancel()

    # Turns

    async def _run(self, conversation: Conversation, turn: Turn) -> None:
        """Run a turn to its end, and tell it."""
        transcript = conversation.transcript
        how: End = "completed"
        error: Problem | None = None
        try:
            await turn.run()
        except asyncio.CancelledError:
            how = "cut"
        except Failed as failure:
            how, error = ("cut" if transcript.answered else "dropped"), self._problem(str(failure))
        except OSError as failure:
            how, error = "cut", self._problem(f"The conversation can't be kept: {failure.strerror or failure}.")
        except Exception as failure:  # noqa: BLE001 - the root of the turn
            how, error = "cut", self._problem(f"This agent failed: {type(failure).__name__}.")
        with contextlib.suppress(OSError):  # it was told, or will be with the next turn
            if transcript.present is not None:
                transcript.end(how)
        self._turn = None
        turn.over()
        cancelled = error is None and how == "cut"
        mark = self._mark(transcript)
        self._say(Ended(turn_id=turn.turn_id, error=error, cancelled=cancelled, usage=turn.usage, mark=mark))

    def _tell_resumable(self) -> None:
        path = self._settings.transcript
        if not self._resumable and path is not None:
            self._resumable = True
            self._say(Resumable(resume_token=Path(path).stem))

    def _mark(self, transcript: Transcript) -> str | None:
        """Where the conversation stands: SESSION/TRANSCRIPT TURN, as the adapter reads it."""
        if self._settings.transcript is None or transcript.last_turn is None:
            return None
        path = Path(self._settings.transcript)
        return f"{path.parent.name}/{path.stem} {transcript.last_turn}"

    def _problem(self, text: str) -> Problem:
        return Problem(code="agent_failed", detail=self._clean(text))

    def _remark(self, text: str) -> None:
        self._say(Wrote(text=self._clean(text)))

    def _clean(self, text: str) -> str:
        return redacted(text, self._settings.secrets)

    def _say(self, said: Said) -> None:
        _write(p.line(said))


def _transcript(settings: p.Open) -> Transcript:
    """The conversation.

    Raises:
        Failed: It is to be gone on with, and is not there.
    """
    if settings.transcript is None:
        return Transcript(None)
    if settings.origin is not None:
        return _branch(settings.origin, Path(settings.transcript))
    if not settings.resume:
        return Transcript(Path(settings.transcript))
    try:
        return Transcript.open(Path(settings.transcript))
    except Missing as error:
        raise Failed(
            f"This conversation can't be gone on with: its transcript can't be read ({error}). "
            "If it is gone for good, `clear` the session to begin a new one."
        ) from error


def _branch(origin: tuple[str, str], path: Path) -> Transcript:
    """A conversation that begins as another one did.

    Raises:
        Failed: That one is not there.
    """
    file, turn_id = origin
    try:
        return Transcript.branch(Path(file), turn_id, path)
    except Missing as error:
        raise Failed(f"The conversation that this one begins from can't be read: {error}.") from error


async def heed() -> None:
    """Let the task that listens take in what lies in the pipe. It handles what it has read before anybody else runs."""
    for _ in range(HEED_MAX):
        if not select.select([0], [], [], 0)[0]:
            return
        await asyncio.sleep(0)


def _write(line: bytes) -> None:
    """Say a line. Who does not listen makes this process wait."""
    left = memoryview(line + b"\n")
    while left:
        left = left[os.write(1, left) :]


async def run(prepare: Prepare) -> None:
    """Serve one conversation, then leave."""
    lines = framed(PipeReader(0), LINE_MAX)
    opening = await anext(lines, b"")
    if isinstance(opening, Overlong):
        raise _OverTheLimit
    if not opening:
        return
    settings = msgspec.json.decode(opening, type=p.Open)
    async with asyncio.TaskGroup() as group:
        await Program(settings, group, prepare).listen(lines)
        os._exit(0)


def as_told(settings: p.Open) -> p.Open:
    """The settings as they came."""
    return settings


def main(prepare: Prepare = as_told) -> None:
    """Run until the input ends.

    Args:
        prepare: Called with what the host wants before anything is done; may say where the model is.
    """
    logging.disable()  # what libraries log may hold what people wrote
    asyncio.run(run(prepare))


if __name__ == "__main__":
    main()

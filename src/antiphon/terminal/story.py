"""A session as a reader sees it: the fold of its events into what was said, what runs, what waits and what is asked.

No I/O here and nothing of Textual: a story takes events in order, and views show it.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal, Self

from antiphon.client.documents import Event, Json

ITEMS_MAX = 400
OWN_NAMES = ("local", "browser")
"""What the tokens of this machine's command line and of a signed-in page are called: they name nobody."""


Kind = Literal["text", "thought", "tool", "steer", "note"]


class Part:
    """A piece of a turn. What `text`, `output` and `outcome` say grows while the turn runs."""

    __slots__ = ("input", "kind", "message_id", "name", "outcome", "output", "pieces", "sender", "tool_id")

    def __init__(self, kind: Kind, text: str = "") -> None:
        self.kind: Kind = kind
        self.pieces = [text] if text else []
        self.tool_id = self.name = self.message_id = ""
        self.sender: str | None = None
        self.input: Any = None
        self.output: Any = None
        self.outcome: str | None = None

    @property
    def text(self) -> str:
        """What was said so far."""
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""


class Said:
    """A message that is being answered, or was; `sender` names who sent it where somebody is named."""

    __slots__ = ("at", "message_id", "sender", "text")

    def __init__(self, message_id: str, text: str, at: str, sender: str | None = None) -> None:
        self.message_id, self.text, self.at, self.sender = message_id, text, at, sender


class Run:
    """A turn. `cut` tells that its beginning is further back than this story."""

    __slots__ = ("at", "cancelling", "cut", "ended_at", "error", "origin", "parts", "state", "turn_id", "usage")

    def __init__(self, turn_id: str, at: str, *, origin: str = "message", cut: bool = False) -> None:
        self.turn_id, self.at, self.origin, self.cut = turn_id, at, origin, cut
        self.parts: list[Part] = []
        self.state = "running"
        self.cancelling = False
        self.error: Json | None = None
        self.usage: Json | None = None
        self.ended_at: str | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more comes."""
        return self.state != "running"


class Note:
    """Something that happened to the session."""

    __slots__ = ("at", "text")

    def __init__(self, text: str, at: str) -> None:
        self.text, self.at = text, at


class Waiting:
    """A message in the queue. Its text is None where it was accepted before this story begins."""

    __slots__ = ("at", "message_id", "sender", "text", "when_busy")

    def __init__(self, message_id: str, text: str | None, when_busy: str, at: str, sender: str | None = None) -> None:
        self.message_id, self.text, self.when_busy, self.at, self.sender = message_id, text, when_busy, at, sender


class Question:
    """A permission that an agent asks for."""

    __slots__ = ("options", "permission_id", "question", "tool", "turn_id")

    def __init__(self, permission_id: str, question: str, tool: str | None, options: list[Json], turn_id: str) -> None:
        self.permission_id, self.question, self.tool = permission_id, question, tool
        self.options, self.turn_id = options, turn_id


Item = Said | Run | Note


class Story:
    """What there is to see. Feed it a session's events in their order, each once.

    Attributes:
        items: What was said and done, oldest first; bounded, the oldest leave.
        waiting: The queue, in order.
        asked: The open questions.
        running: The turn that runs.
        cursor: That of the last event that was taken.
        deleted: The session is gone.
    """

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.waiting: list[Waiting] = []
        self.asked: list[Question] = []
        self.running: Run | None = None
        self.cursor: str | None = None
        self.deleted = False
        self._told: set[str] = set()
        self._runs: dict[str, Run] = {}

    def take(self, event: Event) -> bool:
        """Take an event; False when this story is over, as the journal it tells of can't be had any more."""
        if event.type in ("gap", "snapshot"):
            return False
        self.cursor = event.cursor or self.cursor
        if handler := self._HANDLERS.get(event.type):
            handler(self, event, event.data or {})
        if len(self.items) > ITEMS_MAX:
            for gone in self.items[: -ITEMS_MAX // 2]:
                if isinstance(gone, Run):
                    self._runs.pop(gone.turn_id, None)
            del self.items[: -ITEMS_MAX // 2]
        return True

    def found(self, message_id: str) -> Waiting | None:
        """A message that waits."""
        return next((each for each in self.waiting if each.message_id == message_id), None)

    def said(self) -> Iterator[Said]:
        """The messages that are shown."""
        return (item for item in self.items if isinstance(item, Said))

    # Messages

    def _accepted(self, event: Event, data: Json) -> None:
        mode, sender = str(data.get("when_busy", "")), _named(data.get("sender"))
        one = Waiting(event.message_id or "", str(data.get("text", "")), mode, event.at, sender)
        place = data.get("place")
        self.waiting.insert(place if isinstance(place, int) else len(self.waiting), one)

    def _edited(self, event: Event, data: Json) -> None:
        if one := self.found(event.message_id or ""):
            one.text = data.get("text") or one.text
            one.when_busy = data.get("when_busy") or one.when_busy

    def _withdrawn(self, event: Event, _data: Json) -> None:
        self._leave(event.message_id or "")

    def _requeued(self, event: Event, _data: Json) -> None:
        said = next((said for said in self.said() if said.message_id == event.message_id), None)
        text, sender = (said.text, said.sender) if said else (None, None)
        self.waiting.insert(0, Waiting(event.message_id or "", text, "queue", event.at, sender))

    def _message_ended(self, event: Event, data: Json) -> None:
        one = self._leave(event.message_id or "")
        if one and data.get("state") != "withdrawn":
            self._tell(one, event.at)
            self.items.append(Note(f"That message was {data.get('state')}{_reason(data.get('error'))}.", event.at))

    def _reordered(self, _event: Event, data: Json) -> None:
        places: dict[str, int] = {message_id: place for place, message_id in enumerate(data.get("order") or ())}
        self.waiting.sort(key=lambda one: places.get(one.message_id, len(places)))

    def _leave(self, message_id: str) -> Waiting | None:
        one = self.found(message_id)
        if one:
            self.waiting.remove(one)
        return one

    def _tell(self, one: Waiting, at: str) -> None:
        if one.message_id not in self._told:
            self._told.add(one.message_id)
            self.items.append(Said(one.message_id, one.text or "…", at, one.sender))

    # Turns

    def _started(self, event: Event, data: Json) -> None:
        for message_id in data.get("message_ids") or ():
            one = self._leave(message_id)
            self._tell(one or Waiting(message_id, None, "", event.at), event.at)
        self._begin(event, origin=str(data.get("origin") or "message"))

    def _begin(self, event: Event, *, origin: str = "message", cut: bool = False) -> Run:
        run = Run(event.turn_id or "", event.at, origin=origin, cut=cut)
        self.items.append(run)
        self._runs[run.turn_id] = run
        self.running = run
        return run

    def _run(self, event: Event) -> Run:
        return self._runs.get(event.turn_id or "") or self._begin(event, cut=True)

    def _text(self, event: Event, data: Json) -> None:
        self._say(self._run(event), "text", str(data.get("text", "")))

    def _thought(self, event: Event, data: Json) -> None:
        self._say(self._run(event), "thought", str(data.get("text", "")))

    @staticmethod
    def _say(run: Run, kind: Literal["text", "thought"], text: str) -> None:
        if not run.parts or run.parts[-1].kind != kind:
            run.parts.append(Part(kind))
        run.parts[-1].pieces.append(text)

    def _tool_started(self, event: Event, data: Json) -> None:
        part = Part("tool")
        part.tool_id, part.name, part.input = str(data.get("tool_id", "")), str(data.get("name", "")), data.get("input")
        self._run(event).parts.append(part)

    def _tool_ended(self, event: Event, data: Json) -> None:
        for part in reversed(self._run(event).parts):
            if part.kind == "tool" and part.tool_id == data.get("tool_id"):
                part.outcome, part.output = str(data.get("outcome", "")), data.get("output")
                return

    def _usage(self, event: Event, data: Json) -> None:
        self._run(event).usage = data.get("usage")

    def _steered(self, event: Event, _data: Json) -> None:
        one = self._leave(event.message_id or "")
        part = Part("steer", one.text or "…" if one else "…")
        part.message_id, part.sender = event.message_id or "", one.sender if one else None
        self._told.add(part.message_id)
        self._run(event).parts.append(part)

    def _cancel_requested(self, event: Event, _data: Json) -> None:
        self._run(event).cancelling = True

    def _ended(self, event: Event, data: Json) -> None:
        run = self._run(event)
        run.state, run.error, run.ended_at = str(data.get("state", "")), data.get("error"), event.at
        run.usage = data.get("usage") or run.usage
        for part in run.parts:
            if part.kind == "tool" and part.outcome is None:
                part.outcome = "aborted"
        if self.running is run:
            self.running = None

    # Questions

    def _asked(self, event: Event, data: Json) -> None:
        question = Question(
            str(data.get("permission_id", "")),
            str(data.get("question", "")),
            data.get("tool"),
            list(data.get("options") or ()),
            event.turn_id or "",
        )
        self.asked.append(question)

    def _answered(self, event: Event, data: Json) -> None:
        by = f" by {data['by']}" if data.get("by") else ""
        self._settled(event, data, f"{data.get('decision')}{by}")

    def _expired(self, event: Event, data: Json) -> None:
        self._settled(event, data, f"expired: {data.get('reason')}")

    def _settled(self, event: Event, data: Json, how: str) -> None:
        for question in self.asked:
            if question.permission_id == data.get("permission_id"):
                self.asked.remove(question)
                self._run(event).parts.append(Part("note", f"{question.question}: {how}"))
                return

    # The session

    def _cleared(self, event: Event, data: Json) -> None:
        reason = f" ({data['reason']})" if data.get("reason") else ""
        self.items.append(Note(f"A new transcript, generation {data.get('generation')}{reason}.", event.at))

    def _stopped(self, event: Event, _data: Json) -> None:
        self.items.append(Note("Stopped. A message is refused until somebody resumes it.", event.at))

    def _resumed(self, event: Event, _data: Json) -> None:
        self.items.append(Note("Resumed.", event.at))

    def _deleted(self, event: Event, _data: Json) -> None:
        self.deleted = True
        self.items.append(Note("The session was deleted.", event.at))

    def _paused(self, event: Event, _data: Json) -> None:
        self.items.append(Note("Paused. What waits goes on waiting.", event.at))

    def _continued(self, event: Event, _data: Json) -> None:
        self.items.append(Note("No longer paused.", event.at))

    _HANDLERS: ClassVar[dict[str, Callable[[Self, Event, Json], None]]] = {
        "message.accepted": _accepted,
        "message.edited": _edited,
        "message.withdrawn": _withdrawn,
        "message.requeued": _requeued,
        "message.ended": _message_ended,
        "queue.reordered": _reordered,
        "queue.paused": _paused,
        "queue.continued": _continued,
        "turn.started": _started,
        "turn.text": _text,
        "turn.thought": _thought,
        "turn.tool_started": _tool_started,
        "turn.tool_ended": _tool_ended,
        "turn.usage": _usage,
        "turn.steered": _steered,
        "turn.cancel_requested": _cancel_requested,
        "turn.ended": _ended,
        "permission.requested": _asked,
        "permission.answered": _answered,
        "permission.expired": _expired,
        "session.cleared": _cleared,
        "session.stopped": _stopped,
        "session.resumed": _resumed,
        "session.deleted": _deleted,
    }


def _named(sender: Any) -> str | None:
    """Who sent a message, where that names somebody."""
    return sender if isinstance(sender, str) and sender not in OWN_NAMES else None


def _reason(error: Json | None) -> str:
    return f": {error.get('detail')}" if error else ""

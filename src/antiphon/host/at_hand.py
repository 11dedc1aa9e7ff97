"""What an actor has at hand, so that it need not be read: the running turn's text, and what persons wrote lately."""

from collections.abc import Iterable

from antiphon.core import errors
from antiphon.core import events as e
from antiphon.core.events import Entry
from antiphon.core.session import Message, Turn
from antiphon.core.step import Step
from antiphon.host.context import Context
from antiphon.host.tasks import Tasks
from antiphon.host.views import receipt
from antiphon.ports.store import NewText

AT_HAND_MAX = 16_384
"""Characters of a message that is kept at hand until its agent has it; longer ones are read from the store."""
_REWRITES = {e.MessageEdited.TYPE, e.MessageEnded.TYPE}


class AtHand:
    """The texts of one session. What is not here is in the store."""

    def __init__(self, context: Context, tasks: Tasks) -> None:
        """For the actor, whose `tasks` read what has to be read before it can be handed over."""
        self._context = context
        self._tasks = tasks
        self._texts: dict[str, list[str]] = {}
        self._written: dict[str, NewText] = {}

    def written(self, message_id: str) -> NewText | None:
        """What a person wrote, of messages that came here since and have not ended."""
        return self._written.get(message_id)

    def text_of(self, turn_id: str | None) -> str | None:
        """What the running turn has said so far; None for one whose beginning was not here."""
        pieces = self._texts.get(turn_id or "")
        return None if pieces is None else "".join(pieces)

    def give_up(self) -> None:
        """Keep no message at hand: others may write to it."""
        self._written.clear()

    def lose(self) -> None:
        """Keep nothing at hand."""
        self._written.clear()
        self._texts.clear()

    def remember(self, step: Step, *, owned: bool) -> None:
        """Keep the running turn's text at hand, and hand the receipts of ended messages to those who wait."""
        for event in step.events:
            if type(event) is e.TurnText:  # most of all
                if (pieces := self._texts.get(event.turn_id)) is not None:
                    pieces.append(event.text)
            elif isinstance(event, e.TurnStarted):
                self._texts[event.turn_id] = []
            elif isinstance(event, e.MessageEdited | e.MessageEnded):
                self._written.pop(event.message_id, None)
            elif isinstance(event, e.MessageAccepted) and owned:
                self._keep(event)
        deleted = step.session is not None and step.session.lifecycle == "deleted"
        for record in step.records.values():
            if not isinstance(record, Message) or record.ended_at is None:
                continue
            if deleted or self._context.fanout.awaited(record.id):
                self._hand_over(record, step, deleted=deleted)
        running = step.session.running if step.session else None
        self._texts = {id: pieces for id, pieces in self._texts.items() if running and id == running.turn.id}

    def _hand_over(self, message: Message, step: Step, *, deleted: bool) -> None:
        pieces = self._texts.get(message.turn_id or "")
        turn = step.records.get(message.turn_id or "")
        if message.left_at and not deleted:  # what came after it left is not its own, also where the turn ends with it
            running = step.session.running if step.session else None
            pieces, turn = None, turn or (running.turn if running else None)
        if pieces is None and isinstance(turn, Turn) and not deleted:
            self._tasks.start(self._read_and_hand_over(message, turn.id), "hand_over")
            return
        last = receipt(message, reply="".join(pieces or ()) or None, position=None, waiting_for=None)
        self._context.fanout.ended(last)
        if deleted:
            self._context.fanout.bid_farewell(last)

    async def _read_and_hand_over(self, message: Message, turn_id: str) -> None:
        try:
            reply = await self._context.store.reply(turn_id, until=message.left_at)
        except errors.StoreUnavailable:
            self._context.fanout.unread(message.id)
        else:
            self._context.fanout.ended(receipt(message, reply=reply, position=None, waiting_for=None))

    def read_up(self, news: Iterable[Entry]) -> None:
        """Have at hand what persons wrote at other doors, and no more what was written anew or is over."""
        for entry in news:
            if entry.type in _REWRITES and entry.message_id:
                self._written.pop(entry.message_id, None)
            elif entry.type == e.MessageAccepted.TYPE:
                accepted = e.event(entry)
                assert isinstance(accepted, e.MessageAccepted), "its type says so"
                self._keep(accepted)

    def _keep(self, accepted: e.MessageAccepted) -> None:
        if len(accepted.text) <= AT_HAND_MAX:
            id = accepted.message_id
            self._written[id] = NewText(message_id=id, text=accepted.text, files=accepted.files)

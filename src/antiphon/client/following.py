"""Plans that read event streams: one message's turn, a session's journal, the feed of all sessions.

A stream that breaks is taken up again after the last cursor that was seen, and no cursor is handed out twice.
"""

import json
from collections import deque
from typing import Any

from antiphon.client import exchanges
from antiphon.client.documents import Event, Json, Receipt
from antiphon.client.errors import (
    ApiError,
    ConnectionLost,
    Draining,
    HostNotReached,
    StoreUnavailable,
    UnexpectedAnswer,
)
from antiphon.client.plans import Emit, Open, Patience, Plan, Plans, Read
from antiphon.client.sse import Frame, FrameReader, FrameTooLong
from antiphon.client.wire import Request, Response, document

_WITHOUT_PLACE = ("gap", "snapshot")
FAREWELLS_MAX = 64


class Place:
    """Where in a stream a viewer is: tells what it has seen already. Cursors are `EPOCH:SEQ` (contract, "Events")."""

    def __init__(self, after: str | None = None) -> None:
        self.cursor = after
        self._farewells: deque[str] = deque(maxlen=FAREWELLS_MAX)

    def is_new(self, frame: Frame) -> bool:
        """Whether this frame was not seen before; if so, the viewer is now behind it."""
        if frame.event in _WITHOUT_PLACE:
            self.cursor = frame.id or self.cursor
            return True
        if not frame.id:
            return True
        epoch, sequence = _parsed(frame.id)
        seen_epoch, seen = _parsed(self.cursor or "")
        if frame.event == "session.deleted":
            if frame.data in self._farewells:
                return False
            self._farewells.append(frame.data)  # in the feed it comes at the place that was reached
        elif epoch == seen_epoch and sequence <= seen:
            return False
        self.cursor = frame.id
        return True


class Stream:
    """One connection of a stream: the frames that come by it, until it ends or the time is up."""

    def __init__(self, plans: Plans, deadline: float | None = None) -> None:
        self._plans, self._deadline = plans, deadline
        self._reader, self._frames = FrameReader(), deque[Frame]()
        self._settles_at = float("inf")
        self.heard = False

    def open(self, request: Request) -> Plan[Response]:
        """Open the stream.

        Raises:
            ApiError: The host refused.
        """
        response: Response = yield Open(request, self._plans.pace.answer_s)
        if response.status >= 300:
            document(response)
        self._settles_at = self._plans.now() + self._plans.pace.settled_s
        return response

    @property
    def good(self) -> bool:
        """Whether it told something, or lasted: one that is always cut at once uses up patience."""
        return self.heard or self._plans.now() >= self._settles_at

    def frame(self) -> Plan[Frame]:
        """The next frame.

        Raises:
            ConnectionLost: The stream ended, broke or fell silent, or the time is up.
            ApiError: The host says why it ends the stream.
            UnexpectedAnswer: It sent an event without an end.
        """
        while not self._frames:
            left = self._plans.left(self._deadline)
            silence_s = self._plans.pace.silence_s
            piece: bytes = yield Read(silence_s if left is None else min(left, silence_s))
            if not piece:
                raise ConnectionLost("The host ended the stream.")
            try:
                self._frames.extend(self._reader.feed(piece))
            except FrameTooLong:
                raise UnexpectedAnswer("The host sent an event without an end.") from None
        self.heard = True
        frame = self._frames.popleft()
        if frame.event == "problem":
            fields = Json(_json(frame))
            raise ApiError.of(int(fields.get("status", 500)), fields)
        return frame


def follow(plans: Plans, ref: str | None, after: str | None, wish: exchanges.Wish = exchanges.WHOLE) -> Plan[None]:
    """Emit the events of a session, or with None those of all, for as long as there are any.

    Ends after `session.deleted` of the session that is followed.
    """
    place, patience = Place(after), plans.patience()
    known = False
    while True:
        stream = Stream(plans)
        try:
            response = yield from stream.open(exchanges.event_stream(ref, place.cursor, wish))
            if not response.is_event_stream:
                raise UnexpectedAnswer("The address did not answer with an event stream.")
            known = True
            while True:
                frame = yield from stream.frame()
                if not place.is_new(frame):
                    continue
                event = Event.read(_json(frame))
                yield Emit(event)
                if ref is not None and event.type == "session.deleted":
                    return
        except (HostNotReached, Draining, StoreUnavailable) as error:
            if not known and not isinstance(error, ConnectionLost):
                raise
            yield from _pause(patience, stream, error, None)


def _json(frame: Frame) -> Any:
    try:
        return json.loads(frame.data)
    except (ValueError, RecursionError):
        raise UnexpectedAnswer("The host sent an event that is not JSON.") from None


def _parsed(cursor: str) -> tuple[str, int]:
    epoch, _, sequence = cursor.rpartition(":")
    return (epoch, int(sequence)) if sequence.isascii() and sequence.isdigit() else (cursor, 0)


class Answering:
    """A message that is sent and followed to its end: what is known of it, and what of a stream concerns it."""

    def __init__(self, draft: exchanges.Draft) -> None:
        self.draft = draft
        self.place = Place()
        self.message_id: str | None = None
        self.session_id: str | None = None
        self.turn_id: str | None = None
        self.ended = False
        self.receipt: Receipt | None = None
        self._over = False
        self._in_journal = False
        """The session's journal is read, which does not end with the receipt as the message's own stream does."""

    def request(self) -> Request:
        """How to go on: after the last cursor in the session's journal, else by sending again under the same key."""
        self._in_journal = bool(self.session_id and self.place.cursor)
        if self.session_id and self._in_journal:
            return exchanges.event_stream(self.session_id, self.place.cursor)
        return exchanges.send(self.draft, stream=True).request

    def opened(self, response: Response) -> None:
        """Learn the message's id from `Location`, or from a receipt where the host does not stream."""
        location = response.headers.get("location", "")
        if location.startswith("/v1/messages/"):
            self.message_id = location.rpartition("/")[2]
        if not response.is_event_stream:
            self.receipt = Receipt.read(document(response))
            self.message_id, self.ended = self.receipt.id, True

    def broke(self) -> None:
        """The stream broke. Behind the message's end nothing more of it comes, so the receipt is asked for."""
        self.ended = self._over

    def take(self, frame: Frame) -> Event | None:
        """The event of a frame, where it concerns this message and is new."""
        if frame.event == "receipt":
            self.receipt = Receipt.read(_json(frame))
            self.message_id, self.ended = self.receipt.id, True
            return None
        if not self.place.is_new(frame):
            return None
        event = Event.read(_json(frame))
        self.session_id = event.session_id or self.session_id
        if event.type in _WITHOUT_PLACE:
            self.ended = True  # pieces are lost: the receipt has the whole answer
            return None
        return event if self._concerns(event) else None

    def _concerns(self, event: Event) -> bool:
        if self.message_id is None:
            self.message_id = event.message_id
        mine = event.message_id == self.message_id
        if event.type == "turn.started" and self.message_id in event.data.get("message_ids", ()):
            mine = True
        if mine and event.turn_id:
            self.turn_id = event.turn_id
        if mine and event.type == "message.ended":
            self._over, self.ended = True, self._in_journal
        return mine or (event.turn_id is not None and event.turn_id == self.turn_id)


def send_and_follow(plans: Plans, draft: exchanges.Draft, wait_s: float | None) -> Plan[Receipt]:
    """Send a message and emit the events of its turn as they come; return the receipt, as it stands when time is up."""
    answering, deadline = Answering(draft), plans.deadline(wait_s)
    patience, known = plans.patience(), False
    while not answering.ended and plans.left(deadline) != 0:
        stream = Stream(plans, deadline)
        try:
            yield from _follow_once(stream, answering)
        except (HostNotReached, Draining, StoreUnavailable) as error:
            known = known or stream.heard or isinstance(error, ConnectionLost)
            if not known:
                raise
            answering.broke()
            yield from _pause(patience, stream, error, plans.left(deadline))
    receipt = answering.receipt
    if receipt is not None and receipt.ended:
        return receipt
    if answering.message_id is None:
        return (yield from plans.send(draft, 0))
    message_id = answering.message_id
    return (yield from plans.wait(lambda s: exchanges.message(message_id, s), receipt, deadline))


def _follow_once(stream: Stream, answering: Answering) -> Plan[None]:
    """Follow over one connection, until the message has ended or the connection has."""
    answering.opened((yield from stream.open(answering.request())))
    while not answering.ended:
        event = answering.take((yield from stream.frame()))
        if event is not None:
            yield Emit(event)


def _pause(patience: Patience, stream: Stream, error: Exception, left_s: float | None) -> Plan[None]:
    if stream.good:
        patience.renew()
    yield from patience.pause(error, left_s)

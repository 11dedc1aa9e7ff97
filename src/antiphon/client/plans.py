"""What a client does over time, without doing it: plans.

A plan is a generator. It yields steps, a driver performs them and sends back what came of it or throws what went
wrong, and in the end the plan returns its result. Retries, waiting and following are written here once; the sync and
the async client are two drivers. The only clock is the one a plan is given.
"""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from antiphon.client import exchanges
from antiphon.client.documents import D, Json, Page, Receipt, Turn
from antiphon.client.errors import ConnectionLost, Draining, HostNotReached, StoreUnavailable
from antiphon.client.wire import Exchange, Request, Response, document

T = TypeVar("T")
PAGE_MAX = 200
EVENTS_MAX = 1000

Waited = TypeVar("Waited", Receipt, Turn)


class Pace(NamedTuple):
    """How long a client waits for what, in seconds."""

    slice_s: int = 30
    """The longest single wait that a host is asked for; longer waits are several."""
    late_s: float = 15
    """How much longer than asked an answer to a wait may take."""
    answer_s: float = 60
    """How long any other answer may take: a stop takes its agent's whole grace."""
    reconnect_s: float = 30
    """For how long a host that was there is looked for when it is gone."""
    retry_s: float = 5
    """For how long a lost answer is asked for again where nobody waits for an end."""
    last_try_s: float = 1
    """How long an answer may take at least, also when little is left of the time for all tries."""
    poll_s: float = 0.2
    """How often to look again where a host answers a wait at once."""
    silence_s: float = 60
    """After how much silence an event stream counts as broken."""
    settled_s: float = 1
    """A stream that lasted so long was a good one: when it breaks, the whole patience is there again."""
    first_pause_s: float = 0.05
    longest_pause_s: float = 1.0


class Call(NamedTuple):
    """Perform a request and send back its `Response`. Throws `HostNotReached`, `ConnectionLost`, `UnexpectedAnswer`."""

    request: Request
    timeout_s: float


class Open(NamedTuple):
    """Like `Call`, but an event stream is left open and its pieces are had by `Read`; it replaces the one before."""

    request: Request
    timeout_s: float


class Read(NamedTuple):
    """Send back the next bytes of the open stream, `b""` at its end. Throws `ConnectionLost`."""

    timeout_s: float


class Pause(NamedTuple):
    """Wait about that long; the driver adds jitter."""

    seconds: float


class Emit(NamedTuple):
    """Hand a value to whoever iterates."""

    value: Any


Step = Call | Open | Read | Pause | Emit
Plan = Generator[Step, Any, T]
Now = Callable[[], float]


class Patience:
    """Bounded, growing pauses while a host is away; `renew` when it was heard again."""

    def __init__(self, now: Now, limit_s: float, pace: Pace) -> None:
        self._now, self._limit_s, self._pace = now, limit_s, pace
        self.renew()

    def renew(self) -> None:
        """The host was heard: the next trouble has the whole patience again."""
        self._until: float | None = None
        self._pause_s = self._pace.first_pause_s

    def pause(self, error: Exception, left_s: float | None = None) -> Plan[None]:
        """Wait before trying again, for at most `left_s`.

        Raises:
            Exception: `error`, once patience has run out.
        """
        now = self._now()
        self._until = self._until or now + self._limit_s
        if now + self._pause_s > self._until:
            raise error
        pause_s, self._pause_s = self._pause_s, min(self._pause_s * 2, self._pace.longest_pause_s)
        yield Pause(pause_s if left_s is None else max(0.0, min(pause_s, left_s)))


class Plans:
    """The plans that asking, sending and waiting consist of. `following` has those that read event streams."""

    def __init__(self, now: Now, pace: Pace) -> None:
        self.now, self.pace = now, pace

    def patience(self, limit_s: float | None = None) -> Patience:
        """Patience for a host that was there, or for less."""
        return Patience(self.now, self.pace.reconnect_s if limit_s is None else limit_s, self.pace)

    def answer(self, exchange: Exchange[T], limit_s: float) -> Plan[T]:
        """One try of an exchange."""
        response: Response = yield Call(exchange.request, limit_s)
        return exchange.read(document(response))

    def ask(self, exchange: Exchange[T], *, limit_s: float | None = None, patience: Patience | None = None) -> Plan[T]:
        """One exchange; where its answer is lost and asking again is safe, it is asked again, all within `limit_s`.

        A first connection that fails is the answer: the host is not there.
        """
        limit_s = self.pace.answer_s if limit_s is None else limit_s
        until = self.now() + limit_s
        patience, sent = patience or self.patience(self.pace.retry_s), False
        while True:
            try:
                return (yield from self.answer(exchange, max(self.pace.last_try_s, until - self.now())))
            except ConnectionLost as error:
                sent = True
                if not exchange.request.repeatable or self.now() >= until:
                    raise
                yield from patience.pause(error)
            except HostNotReached as error:
                if not sent:
                    raise
                yield from patience.pause(error)

    def send(self, draft: exchanges.Draft, wait_s: float | None) -> Plan[Receipt]:
        """Send a message and wait for its end for `wait_s`, without limit when that is None.

        The id is fetched before any waiting, so that whoever ends the waiting knows what goes on. Emits as `wait` does.
        """
        deadline = self.deadline(wait_s)
        limit_s = self.pace.answer_s if not wait_s else min(self.pace.answer_s, max(wait_s, self.pace.retry_s))
        receipt = yield from self.ask(exchanges.send(draft), limit_s=limit_s, patience=self.patience(limit_s))
        return (yield from self.wait(lambda s: exchanges.message(receipt.id, s), receipt, deadline))

    def message_wait(self, message_id: str, wait_s: float | None) -> Plan[Receipt]:
        """Wait for a message's end."""
        deadline = self.deadline(wait_s)
        return self.wait(lambda s: exchanges.message(message_id, s), None, deadline)

    def turn_wait(self, turn_id: str, wait_s: float | None) -> Plan[Turn]:
        """Wait for a turn's end."""
        deadline = self.deadline(wait_s)
        return self.wait(lambda s: exchanges.turn(turn_id, s), None, deadline)

    def wait(
        self, exchange: Callable[[int], Exchange[Waited]], known: Waited | None, deadline: float | None
    ) -> Plan[Waited]:
        """Wait until something has ended, or the deadline, through lost connections and restarts of the host.

        Emits how it stands before each slice of the waiting; returns how it stands in the end.
        """
        latest = known or (yield from self.ask(exchange(0)))
        patience = self.patience()
        while not latest.ended and (deadline is None or self.now() < deadline):
            yield Emit(latest)
            began, (wait_s, limit_s) = self.now(), self._slice(deadline)
            try:
                latest = yield from self.answer(exchange(wait_s), limit_s)
            except (HostNotReached, Draining, StoreUnavailable) as error:
                yield from patience.pause(error, self.left(deadline))
                continue
            patience.renew()
            if not latest.ended and self.now() - began < wait_s / 2:  # it does not keep answers back
                yield Pause(self.pace.poll_s)
        return latest

    def pages(self, page: Callable[[Json], Exchange[Page[D]]], limit: int | None) -> Plan[None]:
        """Emit the items of a list, page after page, up to `limit` of them."""
        cursor, left = None, limit
        while left is None or left > 0:
            size = PAGE_MAX if left is None else min(left, PAGE_MAX)
            found = yield from self.ask(page(exchanges.given(limit=size, cursor=cursor)))
            for item in found.items[:size]:
                yield Emit(item)
            left = None if left is None else left - len(found.items)
            cursor = found.next_cursor
            if cursor is None:
                return

    def journal(self, ref: str, after: str | None, limit: int | None) -> Plan[None]:
        """Emit the events that a session has up to now, up to `limit` of them."""
        left = limit
        while left is None or left > 0:
            fields = exchanges.given(after=after, limit=EVENTS_MAX if left is None else min(left, EVENTS_MAX))
            found = yield from self.ask(exchanges.event_page(ref, fields))
            for event in found.items[:left]:
                yield Emit(event)
            left = None if left is None else left - len(found.items)
            behind = found.next_cursor or (found.items[-1].cursor if found.items else None)
            if not found.items or not behind or behind == after:
                return
            after = behind

    def deadline(self, wait_s: float | None) -> float | None:
        """The time at which a wait is over."""
        return None if wait_s is None else self.now() + wait_s

    def left(self, deadline: float | None) -> float | None:
        """How much of a wait is left."""
        return None if deadline is None else max(0.0, deadline - self.now())

    def _slice(self, deadline: float | None) -> tuple[int, float]:
        """For how long to let the host wait, in whole seconds as RFC 7240 has them, and for how long to wait for it.

        The last fraction of a second is cut off here: by then something is known to return.
        """
        left = self.left(deadline)
        if left is None or left > self.pace.slice_s:
            return self.pace.slice_s, self.pace.slice_s + self.pace.late_s
        return (int(left), left + self.pace.late_s) if left >= 1 else (1, left)

"""One process of load: threads that send, wait, cancel, withdraw and patch, and write down what they were told.

Run as `python -m antiphon.testing.torture.load --data-dir D --log FILE --name P --seed S`, and end it with SIGTERM.
With several `--data-dir`, those of hosts that share their sessions, every step goes through any of their doors.
A line of the log is written before a message is sent and when something is known of it, so that a checker can hold the
host's journals against what clients were told.
"""

import argparse
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from antiphon.client import ApiError, ClientError, HostNotReached
from antiphon.client.documents import Receipt
from antiphon.client.keys import new_key
from antiphon.client.plans import Pace
from antiphon.core.errors import Draining, StoreUnavailable
from antiphon.testing.torture.doors import Doors, some
from antiphon.testing.torture.log import Log
from antiphon.testing.torture.onlookers import Answerer, Follower

MODES = ("queue",) * 12 + ("refuse",) * 4 + ("collect",) * 3 + ("steer",) * 3 + ("interrupt",) * 2 + ("rollback",)
PACE = Pace(reconnect_s=60, retry_s=60, slice_s=10, answer_s=60)
HASTE = Pace(reconnect_s=4, retry_s=4, slice_s=4, late_s=4, answer_s=8)
"""Of who has other doors: they wait no longer at one that is shut."""
END_WAIT_S = 120.0
AT_ONE_DOOR_S = 5.0
TRIES = 40
PASSING = (Draining.code, StoreUnavailable.code)
"""Refusals that say nothing of the message: it is tried again."""


class Manner(NamedTuple):
    """How a process of load behaves.

    Attributes:
        pace: Its clients'.
        directives: What agents are told to do, by chance.
        frame: What stands around a directive.
        pause_s: How long a caller thinks between two steps, at the most.
        answerers, followers: How many answer questions, and follow events.
    """

    pace: Pace
    directives: tuple[str, ...]
    frame: str = "{}"
    pause_s: float = 0.0
    answerers: int = 0
    followers: int = 0


SMALL = ("", "", "", "[[stream 6 every 3]] ", "[[sleep 0.05]] ", "[[tool look]] ", "[[late 0.1]] ", "[[bytes 3000]] ")
LONG = ("[[stream 15 every 60]] ", "[[sleep 1.5]] ", "[[ask may I?]] ")
MANNERS = {
    "torture": Manner(PACE, SMALL),
    "chaos": Manner(HASTE, SMALL + LONG, frame="[[pid]] {}[[pid]] ", pause_s=0.2, answerers=1, followers=2),
}
"""Under chaos agents say who they are, at the beginning and in the end."""


class Sender(threading.Thread):
    """One caller. It remembers the ids of its own last messages and turns, to cancel and withdraw some of them."""

    def __init__(self, name: str, doors: Doors, log: Log, chance: random.Random, keys: list[str], how: Manner) -> None:
        super().__init__(name=name, daemon=True)
        self.done = threading.Event()
        self._doors, self._log, self._chance, self._keys, self._how = doors, log, chance, keys, how
        self._count = 0
        self._last: list[str] = []

    def run(self) -> None:
        """Act until told to be done. What a host that is away makes of an action is written down and no end."""
        while not self.done.is_set():
            action = self._chance.choices((self._send, self._meddle, self._patch, self._clear), (84, 8, 7, 1))[0]
            try:
                action()
            except ApiError as error:
                self._log.write("refused", code=error.code)
            except ClientError as error:
                self._log.write("lost", error=type(error).__name__)
            self.done.wait(self._chance.random() * self._how.pause_s)

    def _send(self) -> None:
        self._count += 1
        token, key, mode = f"tok{self.name}x{self._count}z", new_key(), self._chance.choice(MODES)
        session = some(self._keys, self._chance)
        text = self._how.frame.format(self._chance.choice(self._how.directives)) + token
        self._log.write("sent", token=token, session=session, mode=mode)
        draft: dict[str, Any] = {"when_busy": mode, "idempotency_key": key, "create": {"agent": "echo"}}
        receipt = self._deliver(session, text, draft, token)
        if receipt is None:
            return
        self._log.write("accepted", token=token, id=receipt.id, session=session)
        self._last = [*self._last[-4:], receipt.id]
        if self._chance.random() < 0.1:
            again = self._doors.any().send(session, text, wait_s=0, **draft)
            self._log.write("accepted", token=token, id=again.id, session=session)
        if self._chance.random() < 0.8:
            self._wait(token, receipt.id)

    def _deliver(self, session: str, text: str, draft: dict[str, Any], token: str) -> Receipt | None:
        """Send a message; where there are other doors, under the same key through any of them until one is open."""
        tries = TRIES if len(self._doors) > 1 else 1
        for number in range(1, tries + 1):
            try:
                return self._doors.any().send(session, text, wait_s=0, **draft)
            except ApiError as error:
                if error.code not in PASSING or number == tries:
                    self._log.write("not_accepted", token=token, code=error.code, tries=number)
                    return None
            except HostNotReached:
                if number == tries:
                    raise
            self._doors.pause()
        return None

    def _wait(self, token: str, message_id: str) -> None:
        patience_s = self._chance.choice((0.05, END_WAIT_S, END_WAIT_S))
        end = self._end(message_id, patience_s)
        if end.ended:
            self._log.write("ended", token=token, id=message_id, state=end.state, reply=end.reply, turn_id=end.turn_id)
        elif patience_s == END_WAIT_S:
            self._log.write("stuck", token=token, id=message_id, waiting_for=end.waiting_for)

    def _end(self, message_id: str, patience_s: float) -> Receipt:
        """Wait for a message's end; where there are other doors, now at one and now at another."""
        if len(self._doors) == 1:
            return self._doors.any().wait(message_id, patience_s)
        deadline = time.monotonic() + patience_s
        while True:
            try:
                left_s = max(0.0, deadline - time.monotonic())
                now = self._doors.any().wait(message_id, min(left_s, AT_ONE_DOOR_S))
                if now.ended or time.monotonic() >= deadline:
                    return now
            except ClientError:
                if time.monotonic() >= deadline:
                    raise
                self._doors.pause()

    def _meddle(self) -> None:
        if not self._last:
            return
        receipt = self._doors.any().message(self._chance.choice(self._last))
        if receipt.state == "queued":
            self._doors.any().message_withdraw(receipt.id)
        elif receipt.state == "running" and receipt.turn_id:
            cancelled = self._doors.any().turn_cancel(receipt.turn_id)
            self._log.write("cancelled", turn_id=receipt.turn_id, state=cancelled.state, confirmed=cancelled.confirmed)

    def _patch(self) -> None:
        session = self._chance.choice(self._keys)
        self._doors.any().session_patch(session, {"labels": {self.name: str(self._count)}})
        self._log.write("patched", session=session, label=self.name)

    def _clear(self) -> None:
        self._doors.any().session_clear(self._chance.choice(self._keys))


def main() -> int:
    """Make load until SIGTERM, then let every thread come to the end of what it does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", required=True, action="append")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--threads", type=int, default=6)
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--manner", choices=list(MANNERS), default="torture")
    options = parser.parse_args()
    how = MANNERS[options.manner]
    chance = random.Random(f"{options.seed}:{options.name}")  # noqa: S311 - a seed, not a secret
    keys = [f"{options.manner}:{number}" for number in range(options.sessions)]
    log, name = Log(options.log), options.name
    with Doors(options.data_dir, how.pace, _fork(chance)) as doors:
        senders = [Sender(f"{name}n{n}", doors, log, _fork(chance), keys, how) for n in range(options.threads)]
        answerers = [Answerer(f"{name}a{n}", doors, log, _fork(chance)) for n in range(how.answerers)]
        followers = [Follower(f"{name}f{n}", doors, log, _fork(chance), keys) for n in range(how.followers)]
        for thread in (*senders, *answerers, *followers):
            thread.start()
        signal.sigwait({signal.SIGTERM})
        stuck = _ended(senders) + _ended(answerers)
        for hanging in stuck:
            log.write("hanging", thread=hanging)
    return 1 if stuck else 0


def _fork(chance: random.Random) -> random.Random:
    return random.Random(chance.random())  # noqa: S311 - likewise


def _ended(threads: Sequence[Sender | Answerer]) -> list[str]:
    """Have threads come to an end; the names of those that don't."""
    for thread in threads:
        thread.done.set()
    for thread in threads:
        thread.join(END_WAIT_S)
    return [thread.name for thread in threads if thread.is_alive()]


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    sys.exit(main())

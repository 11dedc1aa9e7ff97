"""Those who look on while others send: they follow events, and answer what agents ask."""

import random
import threading
import zlib
from typing import Any

from antiphon.client import ApiError, ClientError
from antiphon.testing.torture.doors import Doors, some
from antiphon.testing.torture.log import Log

LOOK_AGAIN_S = 0.2
TOLD_MOST = 50


class Answerer(threading.Thread):
    """One who allows and denies by chance whatever is asked, through any door."""

    def __init__(self, name: str, doors: Doors, log: Log, chance: random.Random) -> None:
        super().__init__(name=name, daemon=True)
        self.done = threading.Event()
        self._doors, self._log, self._chance = doors, log, chance

    def run(self) -> None:
        """Answer until told to be done."""
        while not self.done.wait(LOOK_AGAIN_S):
            try:
                for permission in list(self._doors.any().permissions()):
                    self._answer(permission.id)
            except ClientError as error:
                self._log.write("lost", error=type(error).__name__)

    def _answer(self, permission_id: str) -> None:
        decision = "allow" if self._chance.random() < 0.7 else "deny"
        try:
            self._doors.any().permission_answer(permission_id, decision)
        except ApiError as error:
            self._log.write("refused", code=error.code)
        else:
            self._log.write("decided", id=permission_id, decision=decision)


class Follower(threading.Thread):
    """One who follows a session's events for a while, then goes on behind them through another door, or elsewhere.

    It waits for events that may never come, so nobody waits for it in the end.
    """

    def __init__(self, name: str, doors: Doors, log: Log, chance: random.Random, keys: list[str]) -> None:
        super().__init__(name=name, daemon=True)
        self._doors, self._log, self._chance, self._keys = doors, log, chance, keys

    def run(self) -> None:
        """Follow for ever."""
        while True:
            key, after = some(self._keys, self._chance), None
            for _ in range(self._chance.randint(1, 4)):
                after = self._follow(key, after)

    def _follow(self, key: str, after: str | None) -> str | None:
        """Follow some events behind a cursor; the cursor behind them."""
        told, behind = list[tuple[int, int]](), _sequence(after)
        many = self._chance.randint(1, TOLD_MOST)
        try:
            for event in self._doors.any().events(key, after=after):
                after = event.cursor
                told.append((_sequence(after), print_of(event.type, event.document)))
                if len(told) >= many:
                    break
        except ClientError as error:
            self._log.write("lost", error=type(error).__name__)
            self._doors.pause()
        if told:
            self._log.write("followed", session=key, behind=behind, events=told)
        return after


def _sequence(cursor: str | None) -> int:
    """The number in a cursor, `EPOCH:SEQ`; 0 for none."""
    return int(cursor.rpartition(":")[2]) if cursor else 0


def print_of(type: str, event: dict[str, Any]) -> int:
    """A number by which an event is known again, whether it was told or kept."""
    words = (type, event.get("turn_id"), event.get("message_id"), event["data"].get("text"))
    return zlib.crc32("\0".join(str(word) for word in words).encode())

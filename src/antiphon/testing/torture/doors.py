"""The doors through which callers come: of one host, or of several that share their sessions."""

import random
import time
from collections.abc import Sequence
from typing import Self

from antiphon.client import Client, HostNotReached
from antiphon.client.plans import Pace

FIRST_HOST_S = 60.0
LOOK_AGAIN_S = 0.05


class Doors:
    """A client for each door, which threads share. Use it as a context manager."""

    def __init__(self, data_dirs: Sequence[str], pace: Pace, chance: random.Random) -> None:
        self._clients = [_client(data_dir, pace) for data_dir in data_dirs]
        self._chance = chance

    def __len__(self) -> int:
        return len(self._clients)

    def any(self) -> Client:
        """One of them, by chance."""
        return self._chance.choice(self._clients)

    def pause(self) -> None:
        """Let a moment go by: what is beyond a door is away."""
        time.sleep(LOOK_AGAIN_S * (1 + self._chance.random()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()


def some(keys: Sequence[str], chance: random.Random) -> str:
    """One of the sessions; the first ones are chosen far more often, so that something waits there."""
    return keys[int(len(keys) * chance.random() ** 2)]


def _client(data_dir: str, pace: Pace) -> Client:
    """A client of a host, which may be dead at this moment."""
    deadline = time.monotonic() + FIRST_HOST_S
    while True:
        try:
            return Client.local(data_dir, start=False, pace=pace)
        except HostNotReached:
            if time.monotonic() > deadline:
                raise
            time.sleep(LOOK_AGAIN_S)

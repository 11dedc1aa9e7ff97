"""One process of load: threads that send, wait, cancel, withdraw and patch, and write down what they were told.

Run as `python -m antiphon.testing.torture.load --data-dir D --log FILE --name P --seed S`, and end it with SIGTERM.
A line of the log is written before a message is sent and when something is known of it, so that a checker can hold the
host's journals against what clients were told.
"""

import argparse
import json
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from antiphon.client import ApiError, Client, ClientError, HostNotReached
from antiphon.client.keys import new_key
from antiphon.client.plans import Pace

MODES = ("queue",) * 12 + ("refuse",) * 4 + ("collect",) * 3 + ("steer",) * 3 + ("interrupt",) * 2 + ("rollback",)
DIRECTIVES = (
    "",
    "",
    "",
    "[[stream 6 every 3]] ",
    "[[sleep 0.05]] ",
    "[[tool look]] ",
    "[[late 0.1]] ",
    "[[bytes 3000]] ",
)
PACE = Pace(reconnect_s=60, retry_s=60, slice_s=10, answer_s=60)
END_WAIT_S = 120.0
FIRST_HOST_S = 60.0


class Log:
    """What the threads were told, a JSON object a line, in the order in which they were told it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._lock = threading.Lock()

    def write(self, kind: str, **fields: Any) -> None:
        """Write one line."""
        with self._lock:
            self._file.write(json.dumps({"kind": kind, **fields}) + "\n")


class Sender(threading.Thread):
    """One caller. It remembers the ids of its own last messages and turns, to cancel and withdraw some of them."""

    def __init__(self, name: str, client: Client, log: Log, chance: random.Random, keys: list[str]) -> None:
        super().__init__(name=name, daemon=True)
        self.done = threading.Event()
        self._client, self._log, self._chance, self._keys = client, log, chance, keys
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

    def _send(self) -> None:
        self._count += 1
        token, key, mode = f"tok{self.name}x{self._count}z", new_key(), self._chance.choice(MODES)
        session = self._chance.choice(self._keys)
        text = f"{self._chance.choice(DIRECTIVES)}{token}"
        self._log.write("sent", token=token, session=session, mode=mode)
        draft: dict[str, Any] = {"when_busy": mode, "idempotency_key": key, "create": {"agent": "echo"}}
        try:
            receipt = self._client.send(session, text, wait_s=0, **draft)
        except ApiError as error:
            self._log.write("not_accepted", token=token, code=error.code)
            return
        self._log.write("accepted", token=token, id=receipt.id, session=session)
        self._last = [*self._last[-4:], receipt.id]
        if self._chance.random() < 0.1:
            again = self._client.send(session, text, wait_s=0, **draft)
            self._log.write("accepted", token=token, id=again.id, session=session)
        if self._chance.random() < 0.8:
            self._wait(token, receipt.id)

    def _wait(self, token: str, message_id: str) -> None:
        patience_s = self._chance.choice((0.05, END_WAIT_S, END_WAIT_S))
        end = self._client.wait(message_id, patience_s)
        if end.ended:
            self._log.write("ended", token=token, id=message_id, state=end.state, reply=end.reply, turn_id=end.turn_id)
        elif patience_s == END_WAIT_S:
            self._log.write("stuck", token=token, id=message_id, waiting_for=end.waiting_for)

    def _meddle(self) -> None:
        if not self._last:
            return
        receipt = self._client.message(self._chance.choice(self._last))
        if receipt.state == "queued":
            self._client.message_withdraw(receipt.id)
        elif receipt.state == "running" and receipt.turn_id:
            cancelled = self._client.turn_cancel(receipt.turn_id)
            self._log.write("cancelled", turn_id=receipt.turn_id, state=cancelled.state, confirmed=cancelled.confirmed)

    def _patch(self) -> None:
        session = self._chance.choice(self._keys)
        self._client.session_patch(session, {"labels": {self.name: str(self._count)}})
        self._log.write("patched", session=session, label=self.name)

    def _clear(self) -> None:
        self._client.session_clear(self._chance.choice(self._keys))


def _client(data_dir: str) -> Client:
    """A client of the host, which may be dead at this moment."""
    deadline = time.monotonic() + FIRST_HOST_S
    while True:
        try:
            return Client.local(data_dir, start=False, pace=PACE)
        except HostNotReached:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def main() -> int:
    """Make load until SIGTERM, then let every thread come to the end of what it does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--threads", type=int, default=6)
    parser.add_argument("--sessions", type=int, default=8)
    options = parser.parse_args()
    chance = random.Random(f"{options.seed}:{options.name}")  # noqa: S311 - a seed, not a secret
    keys = [f"torture:{number}" for number in range(options.sessions)]
    log = Log(options.log)
    with _client(options.data_dir) as client:
        senders = [
            Sender(f"{options.name}n{n}", client, log, random.Random(chance.random()), keys)  # noqa: S311
            for n in range(options.threads)
        ]
        for sender in senders:
            sender.start()
        signal.sigwait({signal.SIGTERM})
        for sender in senders:
            sender.done.set()
        for sender in senders:
            sender.join(END_WAIT_S)
        stuck = [sender.name for sender in senders if sender.is_alive()]
        for name in stuck:
            log.write("hanging", thread=name)
    return 1 if stuck else 0


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    sys.exit(main())

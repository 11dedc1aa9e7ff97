"""After the storm: every door still leads to every session."""

import threading
from collections.abc import Sequence
from pathlib import Path

from antiphon.client import Client, ClientError
from antiphon.testing.torture.load import HASTE

WITHIN_S = 20.0
ROUNDS = 6


def cross_checked(data_dirs: Sequence[Path]) -> list[str]:
    """Send through one door, wait at a second, look on through a third, in turn; what was wrong with that."""
    findings: list[str] = []
    for number in range(ROUNDS):
        doors = [data_dirs[(number + place * (1 + number // 3)) % len(data_dirs)] for place in range(3)]
        key = f"chaos:afterwards-{number % 4}"
        try:
            findings += _round(doors, key, f"tokafter{number}z")
        except ClientError as error:
            findings.append(f"after the storm: {type(error).__name__}: {error}")
    return findings


def _round(doors: Sequence[Path], key: str, word: str) -> list[str]:
    sender, waiter, viewer = (Client.local(door, start=False, pace=HASTE) for door in doors)
    with sender, waiter, viewer:
        sent = sender.send(key, word, create={"agent": "echo"}, wait_s=0)
        heard = threading.Event()
        threading.Thread(target=_look, args=(viewer, key, sent.id, heard), daemon=True).start()
        end = waiter.wait(sent.id, WITHIN_S)
        told = heard.wait(WITHIN_S)
    if end.state != "answered" or end.reply != f"echo: {word}":
        return [f"after the storm {sent.id} is {end.state} with {end.reply!r}, waiting for {end.waiting_for}"]
    return [] if told else [f"after the storm a viewer never heard of the end of {sent.id}"]


def _look(viewer: Client, key: str, message_id: str, heard: threading.Event) -> None:
    """Look on until that message has ended."""
    for event in viewer.events(key):
        if event.type == "message.ended" and event.message_id == message_id:
            heard.set()
            return

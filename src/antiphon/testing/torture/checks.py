"""Reading what a torture left: the clients' logs against the host's journals and receipts."""

import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from antiphon.core.events import Entry
from antiphon.core.evolve import fold
from antiphon.core.session import Session
from antiphon.core.table import ImpossibleEvent
from antiphon.ports.store import SessionQuery, Store
from antiphon.testing.journal import BrokenPromise, Journal
from antiphon.testing.torture.onlookers import print_of

ENDS = ("answered", "failed", "cancelled", "interrupted", "withdrawn")
REFUSALS = ("session_busy", "queue_full")
PAGE = 500
PID = re.compile(r"^pid (\d+)$", re.MULTILINE)

Told = dict[str, Any]


class Kept:
    """What the store holds of all sessions: each journal, read and audited, and each message's text by its id."""

    def __init__(self) -> None:
        self.journals: dict[str, Journal] = {}
        self.texts: dict[str, str] = {}
        self.by_token: dict[str, list[str]] = defaultdict(list)
        self.labels: dict[str, dict[str, str]] = {}
        self.turn_messages: dict[str, list[str]] = defaultdict(list)
        self.decisions: dict[str, str] = {}
        self.prints: dict[str, list[int]] = {}


def read_logs(paths: Iterable[Path]) -> list[Told]:
    """Every line that the load wrote; a last line that is cut short is left out."""
    lines: list[Told] = []
    for path in paths:
        written = path.read_text(encoding="utf-8").splitlines(keepends=True)
        lines += [json.loads(line) for line in written if line.endswith("\n")]
    return lines


async def read_store(store: Store, findings: list[str]) -> Kept:
    """Audit every session in a store, and compare each snapshot with the fold of its journal."""
    kept, cursor = Kept(), None
    while True:
        page = await store.sessions(SessionQuery(), cursor=cursor, limit=100)
        for session in page.items:
            entries = [entry async for entry in _entries(store, session.id)]
            findings += _unlike(session, entries)
            _audit(kept, session.id, entries, findings)
            kept.labels[session.key or session.id] = session.labels
            plain = [msgspec.to_builtins(entry) for entry in entries]
            kept.prints[session.key or session.id] = [print_of(entry["type"], entry) for entry in plain]
        cursor = page.next_cursor
        if cursor is None:
            return kept


def _unlike(session: Session, entries: list[Entry]) -> Iterator[str]:
    try:
        if fold(None, entries) != session:
            yield f"{session.id}: its snapshot is not the fold of its journal"
    except ImpossibleEvent as impossible:
        yield f"{session.id}: {impossible}"


async def _entries(store: Store, session_id: str) -> AsyncIterator[Entry]:
    after = 0
    while page := await store.entries(session_id, after=after, limit=PAGE):
        for entry in page:
            yield entry
        after = page[-1].sequence


def _audit(kept: Kept, session_id: str, entries: list[Entry], findings: list[str]) -> None:
    journal = Journal()
    try:
        journal.read(msgspec.to_builtins(entry) for entry in entries)
        journal.rest()
    except BrokenPromise as broken:
        findings.append(f"{session_id}: {broken}")
    findings += [f"{session_id}: {said}" for said in voices(entries)]
    if journal.turn or journal.running or journal.queue:
        findings.append(f"{session_id}: at rest, but {journal.turn} runs and {journal.queue} wait")
    kept.journals[session_id] = journal
    for entry in entries:
        if entry.type == "message.accepted" and entry.message_id:
            kept.texts[entry.message_id] = entry.data["text"]
            kept.by_token[_token(entry.data["text"])].append(entry.message_id)
        elif entry.type == "turn.started" and entry.turn_id:
            kept.turn_messages[entry.turn_id] += entry.data["message_ids"]
        elif entry.type == "turn.steered" and entry.turn_id and entry.message_id:
            kept.turn_messages[entry.turn_id].append(entry.message_id)
        elif entry.type == "permission.answered":
            kept.decisions[entry.data["permission_id"]] = entry.data["decision"]


def voices(entries: Iterable[Entry]) -> Iterator[str]:
    """P1: where agents say who they are, what a turn says comes from one process, which is the one that was started."""
    pid: int | None = None
    for entry in entries:
        if entry.type == "agent.started":
            pid = entry.data["pid"]
        elif entry.type == "turn.text":
            for said in PID.findall(entry.data["text"]):
                if int(said) != pid:
                    yield f"{entry.turn_id} is told by process {said}, and its agent is {pid} (P1)"


def _token(text: str) -> str:
    return text.rpartition("]] ")[2]


def check(told: list[Told], kept: Kept) -> Iterator[str]:
    """Everything in which what clients were told and what was kept do not agree."""
    yield from _check_accepted(told, kept)
    yield from _check_refused(told, kept)
    yield from _check_ends(told, kept)
    yield from _check_replies(kept)
    yield from _check_labels(told, kept)
    yield from _check_decisions(told, kept)
    yield from _check_cancelled(told, kept)
    yield from _check_followed(told, kept)
    for line in told:
        if line["kind"] in ("stuck", "hanging"):
            yield f"somebody waits for ever: {line}"


def _check_accepted(told: list[Told], kept: Kept) -> Iterator[str]:
    """P2, P8: what was accepted is there, once, under one id."""
    ids: dict[str, set[str]] = defaultdict(set)
    for line in told:
        if line["kind"] == "accepted":
            ids[line["token"]].add(line["id"])
    for token, found in ids.items():
        if len(found) > 1:
            yield f"{token} was accepted as {sorted(found)} under one key (P8)"
        for message_id in found - kept.texts.keys():
            yield f"{message_id} ({token}) was accepted and is lost (P2)"
    for token, found in kept.by_token.items():
        if len(found) > 1:
            yield f"{token} is there {len(found)} times (P8)"


def _check_refused(told: list[Told], kept: Kept) -> Iterator[str]:
    """P5: what was refused is nowhere. What was tried before may still have been on its way."""
    for line in told:
        if line["kind"] != "not_accepted" or line.get("tries", 1) > 1:
            continue
        if line["code"] in REFUSALS and kept.by_token.get(line["token"]):
            yield f"{line['token']} was refused ({line['code']}) and is there (P5)"


def _check_ends(told: list[Told], kept: Kept) -> Iterator[str]:
    """P3, P4: the end that somebody was told is the end that was kept."""
    ends = {id: end for journal in kept.journals.values() for id, end in journal.ends.items()}
    replies = {id: reply for journal in kept.journals.values() for id, reply in journal.replies.items()}
    for message_id in kept.texts.keys() - ends.keys():
        yield f"{message_id} has no end (P3)"
    for line in told:
        if line["kind"] != "ended" or line["id"] not in ends:
            continue
        state, turn_id = ends[line["id"]]
        if (line["state"], line["turn_id"]) != (state, turn_id):
            yield f"{line['id']} was told to be {line['state']} in {line['turn_id']}, kept is {state} in {turn_id} (P3)"
        kept_reply = (replies.get(turn_id or "") or None) if turn_id else None
        if line["reply"] != kept_reply:
            yield f"{line['id']}: the reply that was told is not the one that was kept (P4)"


def _check_replies(kept: Kept) -> Iterator[str]:
    """P4: an answer holds the tokens of its own messages and of no other."""
    for journal in kept.journals.values():
        for message_id, (state, turn_id) in journal.ends.items():
            if state != "answered" or turn_id is None:
                continue
            reply, own = journal.replies[turn_id], {_token(kept.texts[id]) for id in kept.turn_messages[turn_id]}
            if _token(kept.texts[message_id]) not in reply:
                yield f"{message_id} was answered without its token (P4)"
            others = {word for word in reply.split() if word.startswith("tok") and word.endswith("z")} - own
            if others:
                yield f"{turn_id} holds the tokens {sorted(others)} of others (P4)"


def _check_labels(told: list[Told], kept: Kept) -> Iterator[str]:
    """P10: a label that one thread alone writes is there, in every session in which it was written without an error."""
    for line in told:
        if line["kind"] == "patched" and line["label"] not in kept.labels.get(line["session"], {}):
            yield f"label {line['label']} of {line['session']} is lost (P10)"


def _check_decisions(told: list[Told], kept: Kept) -> Iterator[str]:
    """The decision that somebody was told to have made is the one that was kept."""
    for line in told:
        if line["kind"] == "decided" and kept.decisions.get(line["id"]) != line["decision"]:
            yield f"{line['id']} was told to be {line['decision']}, kept is {kept.decisions.get(line['id'])}"


def _check_cancelled(told: list[Told], kept: Kept) -> Iterator[str]:
    """P9: a turn that was confirmed to have stopped has the end that was told."""
    ends = {id: end for journal in kept.journals.values() for id, end in journal.turn_ends.items()}
    for line in told:
        if line["kind"] == "cancelled" and line["confirmed"] and ends.get(line["turn_id"]) != line["state"]:
            yield f"{line['turn_id']} was told to be {line['state']}, kept is {ends.get(line['turn_id'])} (P9)"


def _check_followed(told: list[Told], kept: Kept) -> Iterator[str]:
    """P12: what viewers were told is the journal, without a gap and in order."""
    for line in told:
        if line["kind"] != "followed":
            continue
        prints, key = kept.prints.get(line["session"], []), line["session"]
        for sequence, (told_sequence, seen) in enumerate(line["events"], line["behind"] + 1):
            if sequence != told_sequence:
                yield f"{key}: a viewer was told event {told_sequence} where {sequence} comes"
                break
            if sequence > len(prints) or prints[sequence - 1] != seen:
                yield f"{key}: a viewer was told another event {sequence} than was kept"
                break

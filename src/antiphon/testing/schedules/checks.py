"""What must hold of a schedule that was played."""

import re
from collections.abc import Iterator

from antiphon.testing.journal import BrokenPromise, Journal
from antiphon.testing.schedules.schedule import Played, Sent

TOKEN = re.compile(r"<c\d+\.\d+>")


def findings(played: Played) -> list[str]:
    """Every promise that was broken, in words."""
    return [f"schedule {played.seed}: {finding}" for finding in _findings(played)]


def _findings(played: Played) -> Iterator[str]:
    yield from (f"refused without reason: {refusal}" for refusal in played.unexpected)
    try:
        journal = Journal().read(played.journal)
        journal.rest()
    except BrokenPromise as broken:
        yield str(broken)
        return
    if journal.accepted != {sent.id for sent in played.sent}:
        yield "what was accepted is not what the journal has (P2)"
        return
    tokens = {sent.id: sent.token for sent in played.sent}
    for sent in played.sent:
        yield from _end_of(sent, journal)
    for turn_id, members in _members(played).items():
        said = TOKEN.findall(journal.replies[turn_id])
        known = {tokens[message_id] for message_id in members}
        if set(said) - known or len(set(said)) != len(said):
            yield f"{turn_id} answers {sorted(known)} with {said} (P4)"


def _end_of(sent: Sent, journal: Journal) -> Iterator[str]:
    end = sent.end
    if end is None or not end.ended:
        yield f"{sent.id} has no end: {end and end.waiting_for} (P3)"
        return
    if journal.ends[sent.id] != (end.state, end.turn_id):
        yield f"{sent.id} was told to be {end.state}, the journal says {journal.ends[sent.id]} (P3)"
    if end.state == "answered" and sent.token not in (end.reply or ""):
        yield f"{sent.id} is answered with {end.reply!r}, without {sent.token} (P4)"
    if end.state == "failed" and not (end.error and end.error.code == "deadline_exceeded"):
        yield f"{sent.id} failed: {end.error and end.error.code}"
    if end.turn_id and not journal.replies[end.turn_id].startswith(end.reply or ""):
        yield f"{sent.id} replies what its turn did not say (P4)"


def _members(played: Played) -> dict[str, list[str]]:
    """The messages that each turn was prompted with, or given as steers."""
    members: dict[str, list[str]] = {}
    for entry in played.journal:
        if entry["type"] == "turn.started":
            members[entry["turn_id"]] = list(entry["data"]["message_ids"])
        elif entry["type"] == "turn.steer_requested":
            members[entry["turn_id"]].append(entry["message_id"])
    return members

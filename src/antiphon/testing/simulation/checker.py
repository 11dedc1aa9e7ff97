"""What must hold once a simulation is over: the promises, over the journal, the receipts and what each viewer saw."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from antiphon.core.evolve import fold
from antiphon.core.session import Message, Turn
from antiphon.host.views import Receipt
from antiphon.testing.simulation.chronicle import Story
from antiphon.testing.simulation.ledger import Attempt
from antiphon.testing.simulation.owners import check_owners
from antiphon.testing.simulation.viewer import Overseer, Viewer
from antiphon.testing.simulation.world import World

ENDS = ("answered", "failed", "cancelled", "interrupted", "withdrawn")
OF_MESSAGE = {"completed": "answered", "failed": "failed", "cancelled": "cancelled", "interrupted": "interrupted"}
NAME = re.compile(r"[a-z]+_[0-9a-f]{32}")
PLACES = re.compile(r"(\d+) of (\d+) are in use")
TOKEN = re.compile(r"\[(t\d+\.)\]")


def check(world: World, viewers: list[Viewer], overseer: Overseer) -> None:
    """Note every promise that was broken."""
    for finding in _findings(world, viewers, overseer):
        world.ledger.finding(finding)


def check_journals(world: World) -> Iterator[str]:
    """What must hold of the journals at any time."""
    for story in world.shelf.chronicle.stories.values():
        yield from _journal(story)
        yield from _ends(story)
        yield from _order(story)
        yield from _metadata(story)


def _findings(world: World, viewers: list[Viewer], overseer: Overseer) -> Iterator[str]:
    for story in world.shelf.chronicle.stories.values():
        yield from _journal(story)
        yield from _ends(story)
        yield from _order(story)
        yield from _replies(world, story)
        yield from _deliveries(world, story)
        yield from _metadata(story)
        yield from _causes(world, story)
        yield from _deadlines(story)
    yield from _sends(world)
    yield from _keys(world)
    yield from _receipts(world)
    yield from _patches(world)
    yield from _cancels(world)
    yield from _viewers(world, viewers, overseer)
    yield from _rest(world)
    yield from _clears(world)
    yield from check_owners(world)


# The journal


def _journal(story: Story) -> Iterator[str]:
    """A snapshot is the fold of its journal; the journal has no gaps."""
    session, done = None, 0
    for commit in story.commits:
        if commit.expected != done:
            yield f"P2: {commit.session.id} was committed on {commit.expected} at {done}"
        session = fold(session, commit.entries)
        done += len(commit.entries)
        if session != commit.session:
            yield f"P2: the snapshot of {commit.session.id} at {done} is not the fold of its journal"
    for sequence, entry in enumerate(story.entries, 1):
        if entry.sequence != sequence:
            yield f"P12: entry {sequence} of {entry.session_id} is numbered {entry.sequence}"


def _ends(story: Story) -> Iterator[str]:
    """Every message has one end, or waits for a reason; its end is its turn's."""
    ends: dict[str, list[str]] = {}
    for entry in story.entries:
        if entry.type == "message.accepted" and entry.message_id:
            ends[entry.message_id] = []
        if entry.type == "message.ended" and entry.message_id:
            ends[entry.message_id].append(entry.data["state"])
    for message in story.messages.values():
        told = ends.get(message.id, [])
        if message.state in ENDS and told != [message.state]:
            yield f"P3: {message.id} is {message.state}, its journal says {told}"
        if message.state not in ENDS and (told or not story.session.holds(message.id)):
            yield f"P3: {message.id} is {message.state}, its journal says {told}, and it does not wait"
        turn = story.turns.get(message.turn_id or "")
        left = message.left_at is not None and message.state in ("failed", "cancelled")
        if turn and message.state in ENDS and not left and OF_MESSAGE.get(turn.state) != message.state:
            yield f"P3: {message.id} is {message.state}, its turn {turn.id} is {turn.state}"


# The order


def _order(story: Story) -> Iterator[str]:
    """Messages that nobody moved begin in the order in which they were accepted."""
    moved = {"queue.reordered"}
    if any(entry.type in moved for entry in story.entries):
        return
    modes = _modes(story)
    waiting: list[str] = []
    for entry in story.entries:
        if entry.type == "message.accepted" and entry.message_id and modes[entry.message_id] == {"plain"}:
            waiting.append(entry.message_id)
        elif entry.type == "turn.started":
            begun = [id for id in entry.data["message_ids"] if id in waiting]
            if begun and begun != waiting[: len(begun)]:
                yield f"P7: {begun} began before {waiting[0]} in {entry.session_id}"
            waiting = [id for id in waiting if id not in begun]
        elif entry.type in ("message.ended", "turn.steered") and entry.message_id in waiting:
            waiting.remove(entry.message_id)
        elif entry.type == "message.requeued" and entry.message_id:
            waiting.insert(0, entry.message_id)


def _modes(story: Story) -> dict[str, set[str]]:
    """For each message whether it was `plain` all the time: one that waits its turn, first in first out."""
    modes: dict[str, set[str]] = {}
    for entry in story.entries:
        if entry.type in ("message.accepted", "message.edited") and entry.message_id:
            mode = entry.data.get("when_busy")
            plain = mode in ("queue", "refuse", "steer") or (mode is None and entry.type == "message.edited")
            modes.setdefault(entry.message_id, set()).add("plain" if plain else "other")
    return modes


# What the agents said


def _replies(world: World, story: Story) -> Iterator[str]:
    """A turn's reply is what its agent said in it; an answer has the words of its messages and of no other."""
    texts: dict[str, list[str]] = {}
    for entry in story.entries:
        if entry.type == "turn.text" and entry.turn_id:
            texts.setdefault(entry.turn_id, []).append(entry.data["text"])
    for turn in story.turns.values():
        if turn.first_sequence <= story.copied:
            continue
        reply, said = "".join(texts.get(turn.id, ())), "".join(world.machine.said.get(turn.id, ()))
        if not said.startswith(reply):
            yield f"P4: {turn.id} replies {reply!r}, its agent said {said!r}"
        if turn.state == "completed" and reply != said:
            yield f"P4: {turn.id} completed with {reply!r}, its agent said {said!r}"
        if turn.state == "completed" and turn.origin == "message":
            yield from _own_words(story, turn, reply)


def _own_words(story: Story, turn: Turn, reply: str) -> Iterator[str]:
    wanted = [story.texts[message_id] for message_id in turn.message_ids]
    found = TOKEN.findall(reply)
    if any(story.messages[message_id].attempts > 1 for message_id in turn.message_ids) and "connection" in reply:
        return
    if sorted(found) != sorted(wanted):
        yield f"P4: {turn.id} answers {wanted} with {found}"


def _deliveries(world: World, story: Story) -> Iterator[str]:
    """Each turn reaches an agent once at the most; so does each message, but for what `on_crash` allows."""
    prompts = [each for each in world.machine.delivered if each.turn_id in story.turns]
    begun = [each.turn_id for each in prompts if not each.steered]
    for turn_id in {id for id in begun if begun.count(id) > 1}:
        yield f"P11: {turn_id} was delivered {begun.count(turn_id)} times"
    again = [entry.message_id for entry in story.entries if entry.type == "message.requeued"]
    for message in story.messages.values():
        if message.ended_at is not None and message.sequence <= story.copied:
            continue
        times = sum(message.id in each.message_ids and not each.steered for each in prompts)
        if times > 1 + again.count(message.id):
            yield f"P11: {message.id} was delivered {times} times"
        if message.state == "answered" and not any(message.id in each.message_ids for each in prompts):
            yield f"P4: {message.id} is answered, and reached no agent"
        if message.state == "withdrawn" and times > again.count(message.id):
            yield f"P3: {message.id} was withdrawn, and reached an agent"


def _causes(world: World, story: Story) -> Iterator[str]:
    """A turn is cancelled because somebody wanted that turn cancelled, or the session; requeued as `on_crash` says."""
    interrupting = any("other" in modes for modes in _modes(story).values())
    for entry in story.entries[story.copied :]:
        told_to = "on_crash" in story.session.settings or world.settings.on_crash != "interrupt"
        if entry.type == "message.requeued" and not told_to:
            yield f"P11: {entry.message_id} runs again, against `on_crash`"
        if entry.type != "turn.cancel_requested":
            continue
        reason = entry.data["reason"]
        joined = [story.messages[id] for id in story.turns[entry.turn_id or ""].message_ids]
        answered = [one.id for one in joined if one.left_at is None or one.left_at > entry.sequence]
        limited = [message_id for message_id in answered if story.messages[message_id].deadline]
        known = {
            "cancel": entry.turn_id in world.ledger.cancels
            or bool(world.ledger.message_cancels.intersection(answered)),
            "deadline": len(limited) == len(answered),
            "interrupt": interrupting,
            "shutdown": True,
        }.get(reason, reason in world.ledger.wanted)
        if not known:
            yield f"P9: {entry.turn_id} was cancelled ({reason}), and nobody wanted that"


# Metadata


def _metadata(story: Story) -> Iterator[str]:
    """The last writer of a field wins, and writers of other fields lose nothing."""
    fields: dict[tuple[str, ...], Any] = {}
    for entry in story.entries:
        if entry.type == "session.updated":
            for path, value in _leaves((), entry.data["changes"]).items():
                fields = {other: known for other, known in fields.items() if not _overlap(other, path)}
                fields[path] = value
    session = story.session
    for path, value in fields.items():
        now: Any = getattr(session, path[0])
        for name in path[1:]:
            now = now.get(name) if now else None
        if now != value:
            yield f"P10: {'.'.join(path)} of {session.id} is {now!r}, last written {value!r}"


def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether one path is, or lies inside, the other."""
    return all(left == right for left, right in zip(one, other, strict=False))


def _leaves(path: tuple[str, ...], value: Any) -> dict[tuple[str, ...], Any]:
    if not isinstance(value, dict):
        return {path: value}
    found: dict[tuple[str, ...], Any] = {}
    for name, inner in value.items():  # pyright: ignore[reportUnknownVariableType]
        found.update(_leaves((*path, str(name)), inner))  # pyright: ignore[reportUnknownArgumentType]
    return found


def _patches(world: World) -> Iterator[str]:
    """An accepted patch is in a journal, once; a refused one in none."""
    written: dict[Any, int] = {}
    for story in world.shelf.chronicle.stories.values():
        for entry in story.entries[story.copied :]:
            if entry.type == "session.updated":
                for value in _leaves((), entry.data["changes"]).values():
                    written[value] = written.get(value, 0) + 1
    for patch in world.ledger.patches:
        times = written.get(patch.value, 0)
        if patch.outcome == "accepted" and times != 1:
            yield f"P10: the accepted patch {patch.value} was written {times} times"
        if patch.outcome == "refused" and times:
            yield f"P5: the refused patch {patch.value} was written"


# What clients were told


def _accepted(world: World) -> dict[str, list[tuple[Story, str]]]:
    """The messages that have each token for their first text, those of copies left out."""
    found: dict[str, list[tuple[Story, str]]] = {}
    for story in world.shelf.chronicle.stories.values():
        for entry in story.entries[story.copied :]:
            if entry.type == "message.accepted" and entry.message_id:
                found.setdefault(entry.data["text"], []).append((story, entry.message_id))
    return found


def _sends(world: World) -> Iterator[str]:
    """What was accepted is there; what was refused is not; nothing is there twice."""
    accepted, tries = _accepted(world), dict[str, list[Attempt]]()
    for attempt in world.ledger.attempts:
        tries.setdefault(attempt.token, []).append(attempt)
    for token, attempts in tries.items():
        there = accepted.get(token, [])
        for story, _ in there:
            if sum(other is story for other, _ in there) > 1:
                yield f"P8: {token} was accepted twice in {story.session.id}"
        if there and all(attempt.outcome == "refused" for attempt in attempts):
            yield f"P5: {token} was refused ({attempts[-1].code}), and is there"
        if attempts[0].key is None and len(there) > 1:
            yield f"P8: {token} was sent once, and is there {len(there)} times"
        for attempt in attempts:
            receipt = attempt.receipt
            if receipt and receipt.id not in [message_id for _, message_id in there]:
                yield f"P2: {token} was accepted as {receipt.id}, which is not there"


def _keys(world: World) -> Iterator[str]:
    """One key is one message: every receipt under it, in one session, is the same message's."""
    told: dict[tuple[str, str], set[str]] = {}
    for attempt in world.ledger.attempts:
        if attempt.key and attempt.receipt:
            told.setdefault((attempt.key, attempt.receipt.session_id), set()).add(attempt.receipt.id)
    for (key, session_id), ids in told.items():
        story = world.shelf.chronicle.stories[session_id]
        if ids != {story.keys.get(key)}:
            yield f"P8: {key} is {story.keys.get(key)} in {session_id}, its senders were told {sorted(ids)}"


def _receipts(world: World) -> Iterator[str]:
    """A receipt tells the truth, and an end is an end."""
    for receipt in world.ledger.receipts:
        story = world.shelf.chronicle.of_message(receipt.id)
        if story is None:
            yield f"P2: there is a receipt of {receipt.id}, which is not there"
            continue
        message = story.messages[receipt.id]
        if receipt.state in ENDS:
            yield from _ended_receipt(story, receipt, message, whole=not (world.shared and story.over_at))
        elif receipt.state == "queued":
            yield from _queued_receipt(story, receipt)


def _ended_receipt(story: Story, receipt: Receipt, message: Message, *, whole: bool) -> Iterator[str]:
    """What it tells of a message's end. Of one that ended with its session not all that was said may be known."""
    if (receipt.state, receipt.turn_id) != (message.state, message.turn_id):
        yield f"P3: a receipt of {receipt.id} said {receipt.state} by {receipt.turn_id}, it is {message.state}"
    texts = [
        entry.data["text"]
        for entry in story.entries
        if entry.type == "turn.text"
        and entry.turn_id == message.turn_id is not None
        and (message.left_at is None or entry.sequence < message.left_at)
    ]
    reply, said = receipt.reply or "", "".join(texts)
    if reply != said and (whole or receipt.state != "cancelled" or not said.startswith(reply)):
        yield f"P4: a receipt of {receipt.id} replied {receipt.reply!r}, its turn said {said!r}"


def _queued_receipt(story: Story, receipt: Receipt) -> Iterator[str]:
    """What it waits for exists, in the same session; places that are said to be taken are."""
    why = receipt.waiting_for or ""
    if not receipt.position or not why:
        yield f"P3: the receipt of {receipt.id} does not say what it waits for"
    known = {*story.messages, *story.turns, *story.permissions, story.session.id}
    strangers = [name for name in NAME.findall(why) if name not in known]
    taken = PLACES.search(why)
    if strangers or (taken and taken[1] != taken[2]):
        yield f"P3: {receipt.id} is said to wait for {why!r}"


def _clears(world: World) -> Iterator[str]:
    """Every confirmed clear began a generation, and nothing else did but a reset and what nobody heard of."""
    spare = world.ledger.clears_unknown
    for story in world.shelf.chronicle.stories.values():
        cleared = [entry for entry in story.entries[story.copied :] if entry.type == "session.cleared"]
        asked = [entry for entry in cleared if entry.data.get("reason") != "reset"]
        more = len(asked) - world.ledger.clears.get(story.session.id, 0)
        spare -= more
        if more < 0 or spare < 0:
            yield f"P10: {story.session.id} was cleared {more:+} times more often than was confirmed"


def _cancels(world: World) -> Iterator[str]:
    """A confirmed cancel is how the turn, or the message, ended, unless it was over already for want of time."""
    for turn_id, state in world.ledger.confirmed.items():
        story = world.shelf.chronicle.of_turn(turn_id)
        turn = story.turns[turn_id] if story else None
        overdue = turn is not None and turn.error is not None and turn.error.code == "deadline_exceeded"
        if turn is None or not (overdue or turn.state in ("cancelled", "interrupted")):
            yield f"P9: the cancel of {turn_id} was confirmed ({state}), it is {turn and turn.state}"

    for message_id in world.ledger.message_confirmed:
        story = world.shelf.chronicle.of_message(message_id)
        state = story.messages[message_id].state if story else None
        if state not in ("cancelled", "interrupted", "failed"):
            yield f"P9: the cancel of {message_id} was confirmed, it is {state}"


def _deadlines(story: Story) -> Iterator[str]:
    """Nobody fails for want of time who had some.

    Deadlines go by the wall clock. The latest time that the journal has seen by a message's end counts: the clock may
    have been set back between the deadline and what came of it.
    """
    for message in story.messages.values():
        if message.error is None or message.error.code != "deadline_exceeded":
            continue
        limits = message.deadline
        if limits is None or message.ended_at is None:
            yield f"P3: {message.id} is out of time, and had no deadline"
            continue
        end = next(e.sequence for e in story.entries if e.type == "message.ended" and e.message_id == message.id)
        seen = max(entry.at for entry in story.entries if message.sequence <= entry.sequence <= end)
        spent = [(limits.total_ms, message.accepted_at)]
        spent += [(limits.running_ms, message.started_at or message.ended_at)]
        spent += [(limits.waiting_ms, message.accepted_at)] if message.started_at is None else []
        if not any(limit is not None and seen - since >= limit for limit, since in spent):
            yield f"P3: {message.id} is out of time after {message.ended_at - message.accepted_at} ms of {limits}"


# Viewers


def _viewers(world: World, viewers: list[Viewer], overseer: Overseer) -> Iterator[str]:
    """What viewers saw is the journal."""
    for viewer in viewers:
        entries = world.shelf.chronicle.stories[viewer.session_id].entries
        for sequence, kind in viewer.seen:
            if kind != "snapshot" and entries[sequence - 1].type != kind:
                yield f"P12: a viewer of {viewer.session_id} was told {sequence} is {kind}"
    for session_id, seen in overseer.seen.items():
        over = world.shelf.chronicle.stories[session_id].over_at is not None
        ascending = all(after > before for before, after in pairwise(seen))
        if not ascending or (not over and seen != list(range(1, len(seen) + 1))):
            yield f"P12: the feed told of {session_id}: {seen}"


# At rest


def _rest(world: World) -> Iterator[str]:
    """After a stop in good order nothing runs, and no agent is thought to."""
    for story in world.shelf.readable():
        session = story.session
        if session.running or session.agent_run or session.permissions:
            yield f"P11: after the host's stop {session.id} has {session.running and 'a turn'} {session.agent_run}"

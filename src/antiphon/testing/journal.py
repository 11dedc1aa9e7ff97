"""What every journal of a session must show, whoever wrote it: the promises that can be read off its events alone.

Entries are plain JSON objects with `sequence`, `generation`, `type`, `turn_id`, `message_id` and `data`, so that a
journal from a store, an export or the events page can be checked alike.
"""

from collections.abc import Iterable
from typing import Any

Entry = dict[str, Any]

SPOKEN = ("turn.text", "turn.thought", "turn.tool_started", "turn.tool_ended", "turn.usage", "permission.requested")
ENDS = {"completed": "answered", "failed": "failed", "cancelled": "cancelled", "interrupted": "interrupted"}


class BrokenPromise(AssertionError):
    """The journal shows something that was promised never to happen."""


class Journal:
    """A reading of a journal, entry by entry, from its first on.

    Attributes:
        queue: The ids of the messages that wait, in order.
        running: The ids of the messages in the turn that runs.
        ends: How each message ended: its state and its turn.
        replies: The text of each turn.
        status: What viewers were last told.
    """

    def __init__(self) -> None:
        self.sequence, self.generation, self.revision = 0, 1, 1
        self.queue: list[str] = []
        self.running: list[str] = []
        self.leaving: dict[str, str] = {}
        self.ends: dict[str, tuple[str, str | None]] = {}
        self.replies: dict[str, str] = {}
        self.status: str | None = None
        self.turn: Entry | None = None
        self.turn_ends: dict[str, str] = {}
        self.asked: set[str] = set()
        self.settled: set[str] = set()
        self.run: str | None = None
        self.deleted = self.paused = False
        self._modes: dict[str, str] = {}
        self._senders: dict[str, str | None] = {}
        self._messages_of: dict[str, list[str]] = {}

    @property
    def accepted(self) -> set[str]:
        """Every message the session ever took."""
        return set(self._modes)

    def read(self, entries: Iterable[Entry]) -> "Journal":
        """Read on.

        Raises:
            BrokenPromise: An entry cannot stand where it stands.
        """
        for entry in entries:
            self._read(entry)
        return self

    def rest(self) -> None:
        """Check what holds between two commits: every accepted message is in exactly one place (P3).

        Raises:
            BrokenPromise: One is nowhere, or in two places.
        """
        places = [*self.queue, *self.running, *self.ends]
        _must(not self.leaving, f"messages of an ended turn without an end: {self.leaving}")
        _must(sorted(places) == sorted(self._modes), f"not each in one place: {places} of {sorted(self._modes)}")
        _must(not self.deleted or not (self.queue or self.running), "a deleted session keeps somebody waiting")

    def _read(self, entry: Entry) -> None:
        kind = entry["type"]
        _must(entry["sequence"] == self.sequence + 1, f"a gap after {self.sequence}: {entry}")
        _must(not self.deleted, f"after the session's end: {entry}")
        _must((kind == "session.created") == (self.sequence == 0), f"not the beginning: {entry}")
        self.sequence = entry["sequence"]
        if kind in SPOKEN:
            self._spoken(entry)
        reader = getattr(self, "_" + kind.replace(".", "_"), None)
        if reader:
            reader(entry, entry["data"])
        if self.turn and entry["turn_id"] == self.turn["turn_id"]:
            _must(entry["generation"] == self.turn["generation"], f"of another generation than its turn: {entry}")

    # The session

    def _session_updated(self, entry: Entry, data: Entry) -> None:
        _must(data["revision"] == self.revision + 1, f"revision {self.revision} became {data['revision']}")
        self.revision = data["revision"]

    def _session_cleared(self, entry: Entry, data: Entry) -> None:
        _must(data["generation"] == self.generation + 1, f"generation {self.generation} became {data['generation']}")
        _must(not self.turn or self.turn["cancelled"], "a turn goes on over a clear")
        self.generation = data["generation"]

    def _session_deleted(self, entry: Entry, data: Entry) -> None:
        _must(not self.turn, "a turn goes on over the session's end")
        self.deleted = True

    def _session_status(self, entry: Entry, data: Entry) -> None:
        _must(data["status"] != self.status, f"told twice: {data['status']}")
        self.status = data["status"]

    # Messages

    def _message_accepted(self, entry: Entry, data: Entry) -> None:
        id = entry["message_id"]
        _must(id not in self._modes, f"{id} was accepted twice")
        last = data["place"] == len(self.queue)
        _must(last or data["when_busy"] in ("interrupt", "rollback"), f"{id} pushed itself in front (P7)")
        self._modes[id], self._senders[id] = data["when_busy"], data.get("sender")
        self.queue.insert(data["place"], id)

    def _message_edited(self, entry: Entry, data: Entry) -> None:
        _must(entry["message_id"] in self.queue, f"edited, but not queued: {entry}")
        self._modes[entry["message_id"]] = data.get("when_busy") or self._modes[entry["message_id"]]

    def _message_withdrawn(self, entry: Entry, data: Entry) -> None:
        _must(entry["message_id"] in self.queue, f"withdrawn, but not queued: {entry}")

    def _queue_reordered(self, entry: Entry, data: Entry) -> None:
        _must(sorted(data["order"]) == sorted(self.queue), f"{self.queue} reordered to {data['order']}")
        self.queue = list(data["order"])

    def _message_requeued(self, entry: Entry, data: Entry) -> None:
        id = entry["message_id"]
        _must(self.leaving.get(id) == "interrupted", f"{id} waits again, but its turn was not interrupted")
        del self.leaving[id]
        self.queue.insert(0, id)

    def _message_ended(self, entry: Entry, data: Entry) -> None:
        id, state = entry["message_id"], data["state"]
        _must(id not in self.ends, f"{id} ended twice (P3)")
        self.ends[id] = (state, entry["turn_id"])
        if id in self.queue:
            self.queue.remove(id)
            overdue = state == "failed" and data["error"]["code"] == "deadline_exceeded"
            known = state in ("withdrawn", "cancelled") or overdue
            _must(known and not entry["turn_id"], f"never ran, but {entry}")
            return
        if id in self.running:
            self._leaves(entry, data)
            return
        _must(id in self.leaving, f"{id} ended outside its turn's end (P4)")
        _must(ENDS[self.leaving.pop(id)] == state, f"{id} ended otherwise than its turn: {entry}")
        _must(id in self._messages_of.get(entry["turn_id"], ()), f"not its turn: {entry} (P4)")

    def _leaves(self, entry: Entry, data: Entry) -> None:
        """A message ends, and its turn goes on for others: it was cancelled, or ran out of time."""
        turn, others = self._current(entry), len(self.running) > 1
        _must(data["state"] in ("cancelled", "failed"), f"ended outside its turn's end (P4): {entry}")
        _must(others or turn["origin"] == "agent", f"its turn goes on for nobody: {entry}")
        _must(not turn["cancelled"], f"ended before the turn that is being stopped: {entry}")
        self.running.remove(entry["message_id"])

    # The queue

    def _queue_paused(self, entry: Entry, data: Entry) -> None:
        _must(not self.paused, f"paused twice: {entry}")
        self.paused = True

    def _queue_continued(self, entry: Entry, data: Entry) -> None:
        _must(self.paused, f"not paused: {entry}")
        self.paused = False

    # Turns

    def _turn_started(self, entry: Entry, data: Entry) -> None:
        _must(self.turn is None, f"a turn started while {self.turn} ran (P1)")
        _must(not self.leaving, f"a turn started while messages are without an end: {self.leaving}")
        _must(entry["turn_id"] not in self.replies, f"{entry['turn_id']} started twice")
        ids = list(data["message_ids"])
        _must(not self.paused or not ids, f"started although the queue is paused: {entry}")
        _must((not ids) == (data.get("origin") == "agent"), f"answers nobody: {entry}")
        if ids:
            fitting = self._collected_with(ids) if len(ids) > 1 else self.queue
            _must(ids[0] == self.queue[0] and ids == fitting[: len(ids)], f"{ids} ran before {self.queue} (P7)")
        self.turn = {"turn_id": entry["turn_id"], "generation": entry["generation"], "cancelled": False, "tools": []}
        self.turn["origin"] = data.get("origin")
        self.queue = [id for id in self.queue if id not in ids]
        self.running = ids
        self._messages_of[entry["turn_id"]] = ids
        self.replies[entry["turn_id"]] = ""

    def _collected_with(self, ids: list[str]) -> list[str]:
        """What could share a turn with these: all that is collected, of one sender where these are."""
        senders = {self._senders[id] for id in ids}
        waiting = [id for id in self.queue if self._modes[id] == "collect"]
        return [id for id in waiting if len(senders) > 1 or self._senders[id] in senders]

    def _spoken(self, entry: Entry) -> None:
        turn = self._current(entry)
        aborted = entry["data"].get("outcome") == "aborted"
        _must(aborted or not turn["cancelled"], f"heard after the turn's cancel: {entry} (P4)")

    def _current(self, entry: Entry) -> Entry:
        if self.turn is None or self.turn["turn_id"] != entry["turn_id"]:
            raise BrokenPromise(f"of a turn that does not run: {entry} (P4)")
        return self.turn

    def _turn_text(self, entry: Entry, data: Entry) -> None:
        self.replies[entry["turn_id"]] += data["text"]

    def _turn_tool_started(self, entry: Entry, data: Entry) -> None:
        self._current(entry)["tools"].append(data["tool_id"])

    def _turn_tool_ended(self, entry: Entry, data: Entry) -> None:
        tools = self._current(entry)["tools"]
        _must(data["tool_id"] in tools, f"never began: {entry}")
        tools.remove(data["tool_id"])

    def _turn_steered(self, entry: Entry, data: Entry) -> None:
        turn = self._current(entry)
        _must(not turn["cancelled"], f"steered into a cancelled turn: {entry}")
        self.queue.remove(entry["message_id"])
        self.running.append(entry["message_id"])

    def _turn_cancel_requested(self, entry: Entry, data: Entry) -> None:
        turn = self._current(entry)
        turn["cancelled"] = turn["cancelled"] or data["reason"]

    def _turn_ended(self, entry: Entry, data: Entry) -> None:
        turn, state = self._current(entry), data["state"]
        _must(not turn["tools"], f"tools without an end: {turn['tools']} (P11)")
        _must(not self.asked - self.settled, f"questions without an end: {self.asked - self.settled}")
        cut = state in ("cancelled", "interrupted") or (state == "failed" and turn["cancelled"] == "deadline")
        _must(cut or not turn["cancelled"], f"a cancelled turn ended as {state} (P9)")
        self.turn_ends[entry["turn_id"]] = state
        self.leaving = dict.fromkeys(self.running, state)
        self.turn, self.running = None, []

    # Questions and processes

    def _permission_requested(self, entry: Entry, data: Entry) -> None:
        self.asked.add(data["permission_id"])

    def _permission_answered(self, entry: Entry, data: Entry) -> None:
        self._settle(data["permission_id"])

    def _permission_expired(self, entry: Entry, data: Entry) -> None:
        self._settle(data["permission_id"])

    def _settle(self, id: str) -> None:
        _must(id in self.asked and id not in self.settled, f"{id} was never asked, or is settled twice")
        self.settled.add(id)

    def _agent_started(self, entry: Entry, data: Entry) -> None:
        _must(self.run is None, f"{data['run_id']} started beside {self.run}")
        self.run = data["run_id"]

    def _agent_exited(self, entry: Entry, data: Entry) -> None:
        _must(self.run == data["run_id"], f"{data['run_id']} exited, but {self.run} runs")
        self.run = None


def _must(true: object, why: str) -> None:
    if not true:
        raise BrokenPromise(why)

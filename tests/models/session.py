"""A plain model of a session: dicts and lists, written from the contract and the promises and from nothing else.

Each method stands for a command. It returns what a caller is told: `"done"`, `"nothing"` (accepted, but there was
nothing to do), `("refused", code)` or `("same", message id)`.
"""

from copy import deepcopy
from typing import Any

Outcome = str | tuple[str, str]
Record = dict[str, Any]

DONE, NOTHING = "done", "nothing"
INTERRUPTING = ("interrupt", "rollback")
NO_USAGE = (0, 0)


def refused(code: str) -> Outcome:
    """A refusal with a code of the contract."""
    return ("refused", code)


class Model:
    """What a session ought to be after the commands it was given.

    Attributes:
        life: None before it is created, then `active`, `stopped` or `deleted`.
        messages, turns, permissions: Every one there ever was, by id.
        queue: The ids of the messages that wait, in the order in which they are to run.
        turn: The id of the turn that runs.
        keys: What each idempotency key was spent on: message id and digest.
        run: The agent process, with the generation that it was opened for.
    """

    def __init__(
        self, *, queue_max: int, collect_max: int, attempts_max: int, quiet_ms: int, steers: bool, rolls_back: bool
    ) -> None:
        self.queue_max, self.collect_max, self.attempts_max = queue_max, collect_max, attempts_max
        self.quiet_ms, self.steers, self.rolls_back = quiet_ms, steers, rolls_back
        self.paused = False
        self.now = 0
        self.life: str | None = None
        self.generation = self.revision = 1
        self.edited: Record = {}
        self.messages: dict[str, Record] = {}
        self.turns: dict[str, Record] = {}
        self.permissions: dict[str, Record] = {}
        self.queue: list[str] = []
        self.turn: str | None = None
        self.keys: dict[str, tuple[str, str]] = {}
        self.run: Record | None = None
        self.token: str | None = None
        self.spoken_at: int | None = None
        self.last_end: str | None = None

    # What it looks like

    @property
    def gone(self) -> bool:
        return self.life == "deleted"

    @property
    def running(self) -> Record | None:
        return self.turns[self.turn] if self.turn else None

    def pending(self) -> list[str]:
        return [id for id, permission in self.permissions.items() if permission["state"] == "pending"]

    def status(self) -> str:
        if self.life != "active":
            return "stopped"
        if self.turn:
            return "asking" if self.pending() else "running"
        if self.queue and not self.paused:
            return "starting"
        if self.last_end == "failed":
            return "errored"
        return "idle" if self.run else "dormant"

    # Messages

    def create(self, **edited: Any) -> Outcome:
        if self.life == "deleted":
            return refused("session_not_found")
        if self.life:
            return refused("session_exists")
        self.life, self.edited = "active", deepcopy(edited)
        return DONE

    def send(
        self,
        id: str,
        mode: str | None,
        key: str | None,
        digest: str,
        wanted: int | None,
        sender: str | None = None,
        limits: Record | None = None,
    ) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        if key in self.keys:
            first, spent_on = self.keys[key]
            return ("same", first) if spent_on == digest else refused("idempotency_key_reused")
        if self.life == "stopped":
            return refused("session_stopped")
        if wanted not in (None, self.generation):
            return refused("session_conflict")
        mode = mode or self.edited["when_busy"] or "queue"
        if mode == "refuse" and (self.turn or (self.queue and not self.paused)):
            return refused("session_busy")
        if mode == "collect" and self._overflow() == "refuse" and len(self._collected(sender)) >= self.collect_max:
            return refused("queue_full")
        if len(self.queue) >= self.queue_max:
            return refused("queue_full")
        if wanted is None:
            self._reset_if_due()
        self.messages[id] = {
            "state": "queued",
            "mode": mode,
            "turn": None,
            "as": None,
            "generation": self.generation,
            "error": None,
            "handed": False,
            "declined_by": None,
            "attempts": 0,
            "resumed": False,
            "usage": None,
            "times": [self.now, None, None],
            "sender": sender,
            "limits": limits or {},
            "instead": self._instead(mode or "queue"),
            "left": False,
        }
        if key:
            self.keys[key] = (id, digest)
        self.spoken_at = self.now
        self.queue.append(id)
        if mode in INTERRUPTING:
            self._run_next(id, mode)
        return DONE

    def _instead(self, mode: str) -> str | None:
        """What is done because the agent can't do to the running turn what was asked for."""
        if self.turn and mode == "steer" and not self.steers:
            return "queue"
        return "interrupt" if self.turn and mode == "rollback" and not self.rolls_back else None

    def _overflow(self) -> str:
        return self.edited["settings"].get("collect_overflow", "refuse")

    def _collected(self, sender: str | None) -> list[str]:
        """What waits to be collected with a message of this sender."""
        together = self.edited["settings"].get("collect_senders") == "together"
        waiting = [id for id in self.queue if self.messages[id]["mode"] == "collect"]
        return [id for id in waiting if together or self.messages[id]["sender"] == sender]

    def _reset_if_due(self) -> None:
        policy = self.edited["settings"].get("reset")
        if self.turn or self.queue or not policy or self.spoken_at is None:
            return
        if self.now - self.spoken_at >= policy["idle_minutes"] * 60_000:
            self._new_generation()

    def _run_next(self, id: str, mode: str) -> None:
        """An interrupt: the turn is cancelled, this message is next; a rollback takes the place of earlier ones."""
        self.queue.remove(id)
        for other in list(self.queue) if mode == "rollback" else []:
            if self.messages[other]["mode"] == "rollback":
                self.queue.remove(other)
                self._end_message(other, "cancelled", "superseded")
        self.queue.insert(0, id)
        self._cancel("interrupt", rollback=mode == "rollback" and self.rolls_back)

    def _end_message(self, id: str, state: str, error: str | None = None) -> None:
        message = self.messages[id]
        assert message["state"] in ("queued", "running"), f"{id} ended twice"
        message.update(state=state, error=error, handed=False)
        message["times"][2] = self.now

    def edit(self, id: str, text: str | None, mode: str | None) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        if id not in self.queue or self.messages[id]["handed"]:
            return refused("not_editable")
        if text is None and mode is None:
            return NOTHING
        if text is not None:
            self.messages[id]["resumed"] = False
        if mode:
            self.messages[id].update(mode=mode, instead=None)
        if mode in INTERRUPTING:
            self._run_next(id, mode)
        return DONE

    def withdraw(self, id: str) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        if id not in self.queue or self.messages[id]["handed"]:
            return refused("not_editable")
        self.queue.remove(id)
        self._end_message(id, "withdrawn")
        return DONE

    def reorder(self, order: list[str]) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        if sorted(order) != sorted(self.queue):
            return refused("invalid_request")
        if order == self.queue:
            return NOTHING
        self.queue = list(order)
        return DONE

    def pause(self, paused: bool) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        was, self.paused = self.paused, paused
        return DONE if was != paused else NOTHING

    def cancel_message(self, id: str) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        if id in self.queue and not self.messages[id]["handed"]:
            self.queue.remove(id)
            self._end_message(id, "cancelled")
            return DONE
        turn = self.running
        if not turn or id not in self.answered_by_turn():
            return refused("not_editable")
        if turn["origin"] == "message" and self.answered_by_turn() == [id]:
            return DONE if self._cancel("cancel") else NOTHING
        if turn["cancelling"]:
            return NOTHING
        self._leave(id, "cancelled")
        return DONE

    def answered_by_turn(self) -> list[str]:
        """The messages that the running turn still answers."""
        turn = self.running
        return [id for id in turn["messages"] if not self.messages[id]["left"]] if turn else []

    def _leave(self, id: str, state: str, error: str | None = None) -> None:
        """A message ends, and its turn goes on for others."""
        turn = self.turns[self.turn or ""]
        self._end_message(id, state, error)
        self.messages[id].update(left=True, usage=turn["usage"] or NO_USAGE)

    def cancel_queue(self) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        return DONE if self._empty_queue([id for id in self.queue if not self.messages[id]["handed"]]) else NOTHING

    def _empty_queue(self, ids: list[str]) -> list[str]:
        for id in ids:
            self.queue.remove(id)
            self._end_message(id, "cancelled")
        return ids

    def time_passed(self) -> Outcome:
        """Whoever is out of time fails; a turn all of whose messages are is stopped."""
        if self.gone:
            return refused("session_not_found")
        late = [id for id in self.queue if not self.messages[id]["handed"] and self._is_late(id)]
        for id in late:
            self.queue.remove(id)
            self._end_message(id, "failed", "deadline_exceeded")
        turn, done = self.running, bool(late)
        if turn and not turn["cancelling"]:
            late = [id for id in self.answered_by_turn() if self._is_late(id)]
            if late and turn["origin"] == "message" and late == self.answered_by_turn():
                self._cancel("deadline")
            else:
                for id in late:
                    self._leave(id, "failed", "deadline_exceeded")
        return DONE if done or late else NOTHING

    def _is_late(self, id: str) -> bool:
        message = self.messages[id]
        limits, (accepted, started, _) = message["limits"], message["times"]
        ends = [accepted + limits["total_ms"]] if "total_ms" in limits else []
        if "running_ms" in limits and started is not None:
            ends.append(started + limits["running_ms"])
        if "waiting_ms" in limits and not message["attempts"]:
            ends.append(accepted + limits["waiting_ms"])
        return any(self.now >= end for end in ends)

    # The session

    def patch(self, changes: Record, if_match: int | None) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        if if_match not in (None, self.revision):
            return refused("precondition_failed")
        before = deepcopy(self.edited)
        for name, value in changes.items():
            if name in ("labels", "settings"):
                for field, new in (dict.fromkeys(self.edited[name]) if value is None else value).items():
                    self.edited[name].pop(field, None)
                    if new is not None:
                        self.edited[name][field] = new
            else:
                self.edited[name] = value
        if self.edited == before:
            return NOTHING
        self.revision += 1
        return DONE

    def stop(self) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        if self.life == "stopped":
            return NOTHING
        self.life = "stopped"
        self._cancel("stop")
        return DONE

    def resume(self) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        was, self.life = self.life, "active"
        return DONE if was == "stopped" else NOTHING

    def clear(self) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        self._cancel("clear")
        self._new_generation()
        return DONE

    def _new_generation(self) -> None:
        self.generation += 1
        self.token = self.last_end = None
        for id in self.queue:
            self.messages[id]["resumed"] = False  # the agent of the new transcript never had it
        if not self.queue:
            self.spoken_at = None

    def delete(self) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        if self.turn:
            self._end_turn("cancelled")
        for id in self.queue:
            self._end_message(id, "cancelled")
        self.queue, self.life = [], "deleted"
        return DONE

    # Turns

    def start(self, turn: str) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        if self.life != "active" or self.turn or not self.queue or self.paused:
            return NOTHING
        front, batch = self.messages[self.queue[0]], self.queue[:1]
        if front["mode"] == "collect":
            batch = self._collected(front["sender"])
            batch = batch[: self.collect_max] if self._overflow() == "refuse" else batch
            if self._burst_goes_on(batch):
                return NOTHING
        for id in batch:
            shortened = id in batch[: -self.collect_max]
            was = self.messages[id]["instead"]
            self.messages[id]["instead"] = "summary" if shortened else None if was == "summary" else was
        self._begin(turn, "message", [])
        for id in batch:
            self._join(id, "collect" if front["mode"] == "collect" else "turn")
        return DONE

    def _burst_goes_on(self, batch: list[str]) -> bool:
        accepted = [self.messages[id]["times"][0] for id in batch]
        quiet, long = self.now - max(accepted) >= self.quiet_ms, self.now - min(accepted) >= 5 * self.quiet_ms
        return len(batch) < self.collect_max and not quiet and not long

    def _begin(self, turn: str, origin: str, messages: list[str]) -> None:
        self.turn = turn
        self.turns[turn] = {
            "state": "running",
            "origin": origin,
            "messages": messages,
            "generation": self.generation,
            "cancelling": None,
            "again": False,
            "rollback": False,
            "touched": False,
            "tools": [],
            "said": "",
            "error": None,
            "usage": None,
            "times": [self.now, None],
        }

    def _join(self, id: str, how: str) -> None:
        """A waiting message becomes one of the running turn's."""
        turn, message = self.turns[self.turn or ""], self.messages[id]
        self.queue.remove(id)
        turn["messages"].append(id)
        message.update(state="running", turn=self.turn, generation=turn["generation"], handed=False)
        message["as"] = how
        message["attempts"] += 1
        message["times"][1] = self.now

    def _cancel(self, reason: str, *, rollback: bool = False) -> bool:
        turn = self.running
        if not turn or (turn["cancelling"] and not turn["again"] and (turn["rollback"] or not rollback)):
            return False
        turn["again"] = False
        turn["cancelling"] = turn["cancelling"] or reason
        turn["rollback"] = turn["rollback"] or rollback
        self._drop_questions()
        return True

    def _drop_questions(self) -> None:
        for id in self.pending():
            self.permissions[id]["state"] = "expired"

    def _end_turn(self, state: str, error: str | None = None, usage: Any = None, *, again: bool = False) -> None:
        turn = self.turns[self.turn or ""]
        ends = {"completed": "answered"}
        self._drop_questions()
        turn.update(state=state, error=error, usage=usage or turn["usage"], tools=[])
        turn["times"][1] = self.now
        for id in self.queue:
            self.messages[id]["handed"] = False
            if self.messages[id]["mode"] == "steer":
                self.messages[id]["instead"] = "queue"
        if turn["generation"] == self.generation:
            self.last_end = state
        answered, self.turn = self.answered_by_turn(), None
        for id in answered:
            if not again:
                self._end_message(id, ends.get(state, state), error)
                self.messages[id]["usage"] = turn["usage"] or NO_USAGE
        if again:
            self._wait_again(answered, touched=turn["touched"])

    def _wait_again(self, ids: list[str], *, touched: bool) -> None:
        self.queue = [*ids, *self.queue]
        for id in ids:
            message = self.messages[id]
            message.update(state="queued", turn=None, usage=None, resumed=touched)
            message["as"] = message["times"][1] = None

    def cancel(self, turn: str, *, queue: bool = False) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        if turn != self.turn:
            return refused("turn_ended")
        cancelled = self._cancel("cancel")
        emptied = self._empty_queue(list(self.queue)) if queue else []
        return DONE if cancelled or emptied else NOTHING

    def shut_down(self, on_crash: str, can_resume: bool) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        turn = self.running
        if not turn or turn["cancelling"]:
            return NOTHING
        self._cancel("shutdown")
        turn["again"] = self._runs_again(turn, on_crash, can_resume)
        return DONE

    def _runs_again(self, turn: Record, on_crash: str, can_resume: bool) -> bool:
        tries = [self.messages[id]["attempts"] for id in self.answered_by_turn()]
        safe = on_crash in ("retry_if_untouched", "resume") and not turn["touched"]
        goes_on = on_crash == "resume" and can_resume and turn["touched"]
        return bool(tries) and (safe or goes_on) and all(n < self.attempts_max for n in tries)

    def _settled(self, error: str | None, usage: Any = None) -> None:
        """The agent is done with its turn, or gone: a cancel that was accepted before outweighs what it says."""
        turn = self.turns[self.turn or ""]
        if turn["cancelling"] == "shutdown":
            self._end_turn("interrupted", usage=usage, again=turn["again"])
        elif turn["cancelling"] == "deadline":
            self._end_turn("failed", "deadline_exceeded", usage)
        elif turn["cancelling"]:
            self._end_turn("cancelled", usage=usage)
        else:
            self._end_turn("failed" if error else "completed", error, usage)

    def host_died(self, on_crash: str, can_resume: bool) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        was, self.run = self.run, None
        turn = self.running
        if not turn:
            return DONE if was else NOTHING
        if turn["cancelling"]:
            self._settled(None)
            return DONE
        self._end_turn("interrupted", again=self._runs_again(turn, on_crash, can_resume))
        return DONE

    # The agent

    def _hears(self, turn: str) -> Record | None:
        """The turn, when what the agent says of it still counts."""
        running = self.running
        return running if running and turn == self.turn and not running["cancelling"] else None

    def opened(self, run: str, generation: int | None, token: str | None) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        if self.run and self.run["id"] == run:
            return NOTHING
        of = generation or (self.running["generation"] if self.running else self.generation)
        self.run = {"id": run, "generation": of}
        if token and of == self.generation:
            self.token = token
        return DONE

    def can_resume(self, run: str, token: str) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        if self.run != {"id": run, "generation": self.generation} or token == self.token:
            return NOTHING
        self.token = token
        return DONE

    def said(self, turn: str, kind: str, what: Any) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        heard = self._hears(turn)
        if not heard:
            return NOTHING
        if kind == "tool_started" and what in heard["tools"]:
            return NOTHING
        if kind == "tool_ended" and what not in heard["tools"]:
            return NOTHING
        heard["touched"] = heard["touched"] or kind != "usage"
        if kind == "text":
            heard["said"] += what
        elif kind == "tool_started":
            heard["tools"].append(what)
        elif kind == "tool_ended":
            heard["tools"].remove(what)
        elif kind == "usage":
            heard["usage"] = what
        return DONE

    def asked(self, permission: str, turn: str) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        heard = self._hears(turn)
        if not heard or permission in self.permissions:
            return NOTHING
        heard["touched"] = True
        self.permissions[permission] = {"state": "pending", "turn": turn, "by": None}
        return DONE

    def answer(self, permission: str, decision: str, by: str) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        if permission not in self.pending():
            return refused("permission_answered")
        if decision not in ("allow", "deny"):
            return refused("invalid_request")
        self.permissions[permission].update(state={"allow": "allowed", "deny": "denied"}[decision], by=by)
        return DONE

    def expire(self, permission: str) -> Outcome:
        outcome = self.answer(permission, "deny", "policy")
        return NOTHING if outcome == refused("permission_answered") else outcome

    def can_be_steered(self, id: str) -> bool:
        """Whether a waiting message may be handed to the turn that runs: once, unless it was declined."""
        message, turn = self.messages.get(id), self.running
        if message is None or id not in self.queue or turn is None or turn["cancelling"]:
            return False
        return message["mode"] == "steer" and not message["handed"] and message["declined_by"] != self.turn

    def steer(self, turn: str, id: str) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        if turn != self.turn or not self.can_be_steered(id):
            return NOTHING
        self.messages[id]["handed"] = True
        return DONE

    def steered(self, turn: str, id: str, taken: bool) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        heard = self._hears(turn)
        if not heard or id not in self.queue or not self.messages[id]["handed"]:
            return NOTHING
        if taken:
            self._join(id, "steer")
            self.messages[id]["instead"] = None
            heard["touched"] = True
        else:
            self.messages[id].update(handed=False, declined_by=turn, instead="queue")
        return DONE

    def began(self, turn: str) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        if self.life != "active" or self.turn or not self.run or self.run["generation"] != self.generation:
            return NOTHING
        self._begin(turn, "agent", [])
        return DONE

    def ended(self, turn: str, error: str | None, cut_short: bool, usage: Any) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        if turn != self.turn:
            return NOTHING
        self._settled(error or ("agent_failed" if cut_short else None), usage)
        return DONE

    def unavailable(self, turn: str) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        if turn != self.turn:
            return NOTHING
        self._settled("agent_unavailable")
        return DONE

    def exited(self, run: str, turn: str | None) -> Outcome:
        if self.gone:
            return refused("session_not_found")
        mine = self.run is not None and self.run["id"] == run
        if mine:
            self.run = None
        if turn and turn == self.turn:
            self._settled("agent_failed")
            return DONE
        return DONE if mine else NOTHING

    def wrote(self) -> Outcome:
        return refused("session_not_found") if self.gone else DONE

"""Drives plans by a script, on a clock that only their own waiting moves."""

import json
from collections import deque
from typing import Any

from antiphon.client.errors import ClientError
from antiphon.client.plans import Call, Emit, Open, Pace, Pause, Plans, Read, Step
from antiphon.client.wire import Request, Response

STREAM = Response(200, {"content-type": "text/event-stream", "location": "/v1/messages/msg_1"})


def answer(document: Any, status: int = 200, **headers: str) -> Response:
    """An answer of the host."""
    return Response(status, headers, json.dumps(document).encode())


def problem(code: str, status: int) -> Response:
    """A refusal of the host."""
    return answer({"code": code, "detail": f"It is {code}.", "status": status}, status)


def receipt(state: str, **fields: Any) -> dict[str, Any]:
    """A receipt."""
    return {"id": "msg_1", "session_id": "ses_1", "state": state, "reply": None, "error": None} | fields


def event(sequence: int, kind: str, epoch: str = "e", **fields: Any) -> bytes:
    """A server-sent event of a journal."""
    cursor = f"{epoch}:{sequence}"
    body = {"cursor": cursor, "session_id": "ses_1", "type": kind, "data": {}} | fields
    return f"id: {cursor}\nevent: {kind}\ndata: {json.dumps(body)}\n\n".encode()


def told(name: str, body: Any) -> bytes:
    """A server-sent event without a place in the journal."""
    return f"event: {name}\ndata: {json.dumps(body)}\n\n".encode()


class Taking:
    """An outcome that takes its time."""

    def __init__(self, seconds: float, outcome: Response | bytes | ClientError) -> None:
        self.seconds, self.outcome = seconds, outcome


class Script:
    """Performs a plan: pauses pass on the virtual clock, everything else has the next outcome of the script."""

    def __init__(self, *outcomes: Response | bytes | ClientError | Taking, pace: Pace | None = None) -> None:
        self.time = 0.0
        self.steps: list[Step] = []
        self.emitted: list[Any] = []
        self.plans = Plans(lambda: self.time, pace or Pace())
        self._outcomes = deque(outcomes)

    def run(self, plan: Any) -> Any:
        """Perform a plan to its end. Every outcome must have been used."""
        try:
            step: Step = next(plan)
            while True:
                self.steps.append(step)
                outcome = self._outcome(step)
                step = plan.throw(outcome) if isinstance(outcome, ClientError) else plan.send(outcome)
        except StopIteration as end:
            assert not self._outcomes, f"not asked for: {list(self._outcomes)}"
            return end.value

    def _outcome(self, step: Step) -> Any:
        match step:
            case Pause(seconds):
                self.time += seconds
                return None
            case Emit(value):
                self.emitted.append(value)
                return None
            case Call() | Open() | Read():
                outcome = self._outcomes.popleft()
        if isinstance(outcome, Taking):
            self.time += outcome.seconds
            outcome = outcome.outcome
        return outcome

    @property
    def requests(self) -> list[Request]:
        """What the plan asked the host."""
        return [step.request for step in self.steps if isinstance(step, Call | Open)]

    @property
    def pauses(self) -> list[float]:
        """How long the plan paused, each time."""
        return [step.seconds for step in self.steps if isinstance(step, Pause)]

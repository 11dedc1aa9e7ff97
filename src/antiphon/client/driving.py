"""The sync driver of plans."""

from collections.abc import Generator
from time import monotonic, sleep  # noqa: TID251  the clock of this driver's plans
from typing import Any, TypeVar

from antiphon.client.errors import ClientError
from antiphon.client.keys import jitter
from antiphon.client.plans import Call, Emit, Open, Pause, Plan, Read, Step
from antiphon.client.transport import Connection, Transport

T = TypeVar("T")


class Driver:
    """Performs one plan over a transport. It owns the event stream that the plan has open; close it in the end."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._stream: Connection | None = None

    def run(self, plan: Plan[T]) -> T:
        """Perform a plan to its end, without looking at what it emits."""
        values = self.iterate(plan)
        while True:
            try:
                next(values)
            except StopIteration as end:
                return end.value

    def iterate(self, plan: Plan[T]) -> Generator[Any, None, T]:
        """Perform a plan and yield what it emits. A caller that stops early ends the stream that is open."""
        try:
            step = next(plan)
            while True:
                if isinstance(step, Emit):
                    yield step.value
                    step = next(plan)
                    continue
                try:
                    outcome = self._perform(step)
                except ClientError as error:
                    step = plan.throw(error)
                else:
                    step = plan.send(outcome)
        except StopIteration as end:
            return end.value
        finally:
            plan.close()
            self.close()

    def close(self) -> None:
        """End the event stream that is open."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _perform(self, step: Step) -> Any:
        match step:
            case Call(request, timeout_s):
                return self._transport.call(request, timeout_s)
            case Open(request, timeout_s):
                self.close()
                response, self._stream = self._transport.open(request, timeout_s)
                return response
            case Read(timeout_s):
                assert self._stream is not None, "a plan reads only what it has opened"
                return self._stream.piece(monotonic() + timeout_s)
            case Pause(seconds):
                sleep(seconds * jitter())
            case Emit():
                pass
        return None

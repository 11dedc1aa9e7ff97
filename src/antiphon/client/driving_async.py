"""The async driver of plans, over httpx2 and anyio."""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Generic, TypeVar

import anyio
import httpx2

from antiphon.client.address import Address
from antiphon.client.errors import ClientError, ConnectionLost, HostNotReached
from antiphon.client.keys import jitter
from antiphon.client.plans import Call, Emit, Open, Pause, Plan, Read, Step
from antiphon.client.wire import Request, Response

T = TypeVar("T")
CONNECT_S = 30.0
"""More than the sync client's: among hundreds of calls the loop may look late at a connection that is there."""
KEPT_CONNECTIONS = 100
"""How many connections are kept for later calls."""


class AsyncTransport:
    """Performs requests against wherever `locate` says the host is now."""

    def __init__(self, locate: Callable[[], Address]) -> None:
        self._locate = locate
        # Deadlines are ours, over a whole call; a proxy from the environment has no business with a host's token; and
        # whom to trust is asked of the same place as in the sync client. A wait holds its connection for long, and who
        # cancels what others wait for must not queue up behind them.
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=CONNECT_S),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=KEPT_CONNECTIONS),
            trust_env=False,
            verify=ssl.create_default_context(),
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def call(self, request: Request, timeout_s: float) -> Response:
        """One request and its whole answer.

        Raises:
            HostNotReached, ConnectionLost.
        """
        async with AsyncExitStack() as stack:
            response, _ = await self.open(request, timeout_s, stack)
            return response

    async def open(
        self, request: Request, timeout_s: float, stack: AsyncExitStack
    ) -> tuple[Response, AsyncIterator[bytes] | None]:
        """One request whose answer may be an event stream: then its pieces, for as long as `stack` is open."""
        address = self._locate()
        headers = {"accept": "application/json"} | address.headers() | dict(request.headers)
        if request.body is not None:
            headers["content-type"] = "application/json"
        stream = self._http.stream(request.method, address.url + request.path, content=request.body, headers=headers)
        with _translated(address.url), anyio.fail_after(timeout_s):
            answer = await stack.enter_async_context(stream)
            head = Response(answer.status_code, {name.lower(): value for name, value in answer.headers.items()})
            if head.is_event_stream:
                return head, answer.aiter_raw()
            return head._replace(body=await answer.aread()), None


async def piece(pieces: AsyncIterator[bytes], timeout_s: float) -> bytes:
    """The next bytes of a stream, `b""` at its end."""
    with _translated("the other end"), anyio.fail_after(timeout_s):
        return await anext(pieces, b"")


class AsyncDriver(Generic[T]):
    """Performs one plan. It owns the event stream that the plan has open."""

    def __init__(self, transport: AsyncTransport, plan: Plan[T]) -> None:
        self._transport, self._plan = transport, plan
        self._stack = AsyncExitStack()
        self._pieces: AsyncIterator[bytes] | None = None
        self.result: T

    async def run(self) -> T:
        """Perform the plan to its end, without looking at what it emits."""
        async for _ in self.iterate():
            pass
        return self.result

    async def iterate(self) -> AsyncGenerator[Any]:
        """Perform the plan and yield what it emits; `result` is there once it has ended."""
        try:
            step = next(self._plan)
            while True:
                if isinstance(step, Emit):
                    yield step.value
                    step = next(self._plan)
                    continue
                try:
                    outcome = await self._perform(step)
                except ClientError as error:
                    step = self._plan.throw(error)
                else:
                    step = self._plan.send(outcome)
        except StopIteration as end:
            self.result = end.value
        finally:
            self._plan.close()
            with anyio.CancelScope(shield=True):
                await self._stack.aclose()

    async def _perform(self, step: Step) -> Any:
        match step:
            case Call(request, timeout_s):
                return await self._transport.call(request, timeout_s)
            case Open(request, timeout_s):
                await self._stack.aclose()
                self._stack = AsyncExitStack()
                response, self._pieces = await self._transport.open(request, timeout_s, self._stack)
                return response
            case Read(timeout_s):
                assert self._pieces is not None, "a plan reads only what it has opened"
                return await piece(self._pieces, timeout_s)
            case Pause(seconds):
                await anyio.sleep(seconds * jitter())
            case Emit():
                pass
        return None


@contextmanager
def _translated(place: str) -> Generator[None]:
    """What went wrong, in this package's words."""
    try:
        yield
    except TimeoutError:
        raise ConnectionLost("The host did not answer in time.") from None
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        raise HostNotReached(f"No host answers at {place}: {error}.") from error
    except (httpx2.TransportError, httpx2.StreamError) as error:
        raise ConnectionLost(f"The connection broke: {error}.") from error
    except httpx2.InvalidURL as error:
        raise HostNotReached(f"{place} is not a host's address: {error}.") from error

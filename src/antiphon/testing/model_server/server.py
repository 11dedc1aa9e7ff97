"""The server: finds the dialect, follows the script, remembers what it was asked."""

import asyncio
import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import h11
import msgspec

from antiphon.testing.model_server.chat_completions import ChatCompletions
from antiphon.testing.model_server.conversation import Conversation, ToolCall
from antiphon.testing.model_server.dialect import Answer, Dialect, ServerEvent
from antiphon.testing.model_server.messages import AnthropicMessages
from antiphon.testing.model_server.record import Exchange, Outcome, Record
from antiphon.testing.model_server.responses import Responses
from antiphon.testing.model_server.script import (
    Call,
    Cut,
    Hold,
    Pause,
    Refuse,
    Say,
    ScriptError,
    Step,
    Think,
    pieces,
    plan,
)
from antiphon.testing.model_server.wire import Request, Wire

TURNS_MAX = 1_000
DIALECTS: tuple[Dialect, ...] = (Responses(), ChatCompletions(), AnthropicMessages())


class ModelServer:
    """A scripted model behind HTTP on 127.0.0.1. Use it as an async context manager.

    It asks for no key and must not be given one. Not safe to share between event loops.

    Args:
        port: Where to listen; 0 takes a free port.
        remembers: How many exchanges are kept.
        body_limit: The most bytes that a request may have.
    """

    def __init__(self, *, port: int = 0, remembers: int = 200, body_limit: int = 16 * 1024 * 1024) -> None:
        self._port = port
        self._body_limit = body_limit
        self._record = Record(remembers)
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._arrivals: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._refused: Counter[tuple[str, ...]] = Counter()
        self._turns: dict[str, int] = {}
        self._numbers = itertools.count(1)
        self._connections: set[asyncio.Task[Any]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Where it listens, without a path. An agent that wants OpenAI's base URL gets `url + "/v1"`."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """The last requests to the model, oldest first."""
        return tuple(self._record)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Listen. After `close` it may be started again, on the same port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and break off every connection. Idempotent."""
        if self._server is None:
            return
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    def release(self, name: str) -> None:
        """Let `[[hold name]]` go on, now and ever after."""
        self._gates[name].set()

    async def reached(self, name: str) -> None:
        """Wait until a request stands, or stood, at `[[hold name]]`. The caller bounds the wait."""
        await self._arrivals[name].wait()

    async def asked(self, text: str, outcome: Outcome | None = None) -> Exchange:
        """Wait for a request whose last user text contains `text`, and for its outcome. The caller bounds the wait."""
        return await self._record.until(
            lambda exchange: text in exchange.conversation.last_text and outcome in (None, exchange.outcome)
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        wire = Wire(reader, writer, self._body_limit)
        try:
            while (request := await wire.request()) is not None:
                await self._route(wire, request)
        except (h11.RemoteProtocolError, ConnectionError):
            wire.break_off()
        except ValueError as error:
            await wire.send_json(413, {"error": {"message": str(error)}})
        except asyncio.CancelledError:
            wire.break_off()  # `close` waits for this task, and whoever cancels it wants just that.
        finally:
            self._connections.discard(task)
            await wire.close()

    async def _route(self, wire: Wire, request: Request) -> None:
        dialect = next((dialect for dialect in DIALECTS if dialect.path == request.path), None)
        if request.method == "POST" and dialect is not None:
            await self._answer(wire, dialect, request.body)
            return
        status, document = self._control(request)
        await wire.send_json(status, document)

    def _control(self, request: Request) -> tuple[int, Any]:
        """What is not a request to the model: the test's own wishes, and what agents ask besides."""
        match request.method, request.path.strip("/").split("/"):
            case "POST", ["control", "release", name]:
                self.release(name)
                return 200, {"released": name}
            case "GET", ["control", "exchanges"]:
                return 200, self.exchanges
            case "GET", ["v1", "models"]:
                return 200, {"object": "list", "data": [{"id": "fake-model", "object": "model"}]}
            case "POST", ["v1", "messages", "count_tokens"]:
                return 200, {"input_tokens": 1}
            case (("GET" | "HEAD"), [""]):
                return 200, {"model_server": "antiphon"}
            case _:
                return 404, {"error": {"message": f"Nothing at {request.method} {request.path}."}}

    async def _answer(self, wire: Wire, dialect: Dialect, body: bytes) -> None:
        try:
            conversation = dialect.read(body)
            steps = plan(conversation, self._first_of_turn(conversation))
        except (msgspec.MsgspecError, ScriptError) as error:
            await wire.send_json(400, dialect.problem(400, str(error)))
            return
        exchange = Exchange(path=dialect.path, conversation=conversation, body=msgspec.json.decode(body))
        await self._record.begin(exchange)
        outcome: Outcome | None = None
        try:
            outcome = await wire.while_connected(self._follow(wire, dialect, exchange.conversation, steps))
        finally:
            await self._record.end(exchange, outcome or "client_gone")
        if outcome in (None, "cut"):
            wire.break_off()

    async def _follow(
        self, wire: Wire, dialect: Dialect, conversation: Conversation, steps: tuple[Step, ...]
    ) -> Outcome | None:
        """Answer; None when the client went away meanwhile."""
        refusal = self._refusal(conversation, steps)
        try:
            if refusal is not None:
                await self._refuse(wire, dialect, refusal)
                return "refused"
            answer = dialect.answer(f"{next(self._numbers):08d}", conversation)
            if conversation.stream:
                return await self._stream(wire, answer, steps)
            return await self._speak_whole(wire, answer, steps)
        except ConnectionError:
            return None

    def _first_of_turn(self, conversation: Conversation) -> int:
        """Which of the messages is the first that this turn has to answer: the last one, but for steers."""
        last = max(0, len(conversation.messages) - 1 - conversation.joined)
        if conversation.turn is None:
            return last
        first = self._turns.setdefault(conversation.turn, last)
        if len(self._turns) > TURNS_MAX:
            del self._turns[next(iter(self._turns))]
        return max(first, min(conversation.answered, last))

    async def _refuse(self, wire: Wire, dialect: Dialect, refusal: Refuse) -> None:
        headers = (("Retry-After", "1"),) if refusal.status == 429 else ()
        await wire.send_json(refusal.status, dialect.problem(refusal.status, refusal.message), headers)

    async def _stream(self, wire: Wire, answer: Answer, steps: tuple[Step, ...]) -> Outcome:
        await wire.begin_events()
        await wire.send_events(answer.begun())
        for step in steps:
            if isinstance(step, Cut):
                return "cut"
            for events in self._written(step, answer):
                await wire.send_events(events)
            await self._wait(step)
        await wire.send_events(answer.finish())
        await wire.end_events()
        return "answered"

    async def _speak_whole(self, wire: Wire, answer: Answer, steps: tuple[Step, ...]) -> Outcome:
        for step in steps:
            if isinstance(step, Cut):
                return "cut"
            for events in self._written(step, answer):
                deque(events, maxlen=0)  # The answer keeps its blocks; nobody wants the events.
            await self._wait(step)
        await wire.send_json(200, answer.whole())
        return "answered"

    def _refusal(self, conversation: Conversation, steps: tuple[Step, ...]) -> Refuse | None:
        """The HTTP error that the script wants for this request, if any. Each refusal is counted against its number."""
        for step in steps:
            if isinstance(step, Refuse):
                if step.times is None:
                    return step
                if self._refused[conversation.user_texts] < step.times:
                    self._refused[conversation.user_texts] += 1
                    return step
        return None

    def _written(self, step: Step, answer: Answer) -> Iterator[Iterator[ServerEvent]]:
        """What a step adds to the answer, one stretch of events after the other."""
        match step:
            case Say(text):
                for piece in pieces(text):
                    yield answer.write("text", piece)
            case Think(text):
                yield answer.write("thought", text)
            case Call(name, arguments):
                call_id = f"call_{next(self._numbers):08d}"
                yield answer.call(ToolCall(call_id=call_id, name=name, arguments=arguments))
            case _:
                return

    async def _wait(self, step: Step) -> None:
        match step:
            case Pause(duration_ms):
                await asyncio.sleep(duration_ms / 1000)
            case Hold(name):
                self._arrivals[name].set()
                await self._gates[name].wait()
            case _:
                return

"""Asks the model: one streamed request of Chat Completions, made again while nothing of its answer has come."""

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import httpx2
import msgspec

from antiphon.agents.openai import troubles
from antiphon.agents.openai.completion import BadAnswer, Completion, Piece
from antiphon.agents.openai.protocol import Open
from antiphon.agents.openai.sse import Events, TooLong
from antiphon.agents.openai.troubles import Failed

CONNECT_TIMEOUT_S = 20.0
AGAIN = frozenset({408, 409, 429})
FIRST_DELAY_S, LONGEST_DELAY_S = 0.5, 20.0
LONGEST_RETRY_AFTER_S = 60.0
ERROR_BODY_MAX = 65_536
ANSWER_MAX = 128 << 20
"""Bytes of an answer: a server that never stops must not fill the memory."""
LAST_BYTES_S = 0.2
DONE = "[DONE]"


class _Again(Exception):
    """It did not work, and may work the next time. The text says why."""

    def __init__(self, why: str, after_s: float | None = None) -> None:
        super().__init__(why)
        self.after_s = after_s


class Endpoint:
    """Where the model is.

    Args:
        settings: How it is asked.
        remark: Takes what a person should know and what belongs to no turn.
    """

    def __init__(self, settings: Open, remark: Callable[[str], None]) -> None:
        self._settings = settings
        self._remark = remark
        self._url = f"{settings.base_url.rstrip('/')}/chat/completions"
        self._random = random.Random()  # noqa: S311 - jitter, not secrets
        self._client = httpx2.AsyncClient(
            headers={"Content-Type": "application/json", "Accept": "text/event-stream", **settings.headers},
            timeout=httpx2.Timeout(settings.silence_s, connect=CONNECT_TIMEOUT_S),
        )

    async def ask(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], hear: Callable[[Piece], None]
    ) -> Completion:
        """Ask, and hear the answer piece by piece. Once a piece has come the request is never made again.

        Raises:
            Failed: There is no answer, or none that is whole. What came of it was heard.
        """
        body = {**self._settings.body, "model": self._settings.model, "messages": messages, "stream": True}
        if tools:
            body["tools"] = tools
        content = msgspec.json.encode(body)
        attempts = self._settings.retries
        for attempt in range(1, attempts + 2):
            try:
                return await self._once(content, hear)
            except _Again as error:
                delay_s = self._delay(attempt) if error.after_s is None else error.after_s
                if attempt > attempts or delay_s > LONGEST_RETRY_AFTER_S:
                    raise Failed(str(error)) from error
                self._remark(troubles.retrying(str(error), delay_s, attempt, attempts))
                await asyncio.sleep(delay_s)
        raise AssertionError

    def _delay(self, attempt: int) -> float:
        longest = min(FIRST_DELAY_S * 2 ** (attempt - 1), LONGEST_DELAY_S)
        return longest * (0.5 + self._random.random() / 2)

    async def _once(self, content: bytes, hear: Callable[[Piece], None]) -> Completion:
        completion = Completion()
        try:
            async with self._client.stream("POST", self._url, content=content) as response:
                if not response.is_success:
                    await self._refused(response)
                await self._listen(response, completion, hear)
        except (httpx2.ReadTimeout, httpx2.WriteTimeout) as error:
            raise Failed(f"The model said nothing for {self._settings.silence_s:g} s.") from error
        except httpx2.TransportError as error:
            if completion.begun:
                raise Failed(f"The connection to the model broke in the middle of its answer: {error}") from error
            raise _Again(troubles.unreachable(self._settings.base_url, error)) from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Failed(troubles.unreachable(self._settings.base_url, error)) from error
        except BadAnswer as error:
            raise Failed(str(error)) from error
        except TooLong as error:
            raise Failed(
                f"The model's server said a line over the limit of {self._settings.line_limit} bytes."
            ) from error
        return completion

    async def _refused(self, response: httpx2.Response) -> None:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > ERROR_BODY_MAX:
                break
        why = troubles.refused(response.status_code, bytes(body))
        if response.status_code in AGAIN or response.status_code >= 500:
            raise _Again(why, _retry_after(response.headers.get("Retry-After")))
        raise Failed(why)

    async def _listen(self, response: httpx2.Response, completion: Completion, hear: Callable[[Piece], None]) -> None:
        """Take in the answer to its end, and see that it has one."""
        if "json" in response.headers.get("Content-Type", ""):  # a server that does not stream
            body = b"".join([chunk async for chunk in self._bounded(response)])
            _hear(completion, body.decode(errors="replace"), hear)
            completion.finish_reason = completion.finish_reason or "stop"
            return
        events = Events(self._settings.line_limit)
        async with contextlib.aclosing(self._bounded(response)) as chunks:
            async for chunk in chunks:
                for data in events.feed(chunk):
                    if data.strip() == DONE:
                        completion.finish_reason = completion.finish_reason or "stop"
                        await _read_out(chunks)
                        return
                    _hear(completion, data, hear)
        if completion.finish_reason is None:
            if completion.begun:
                raise Failed("The model's answer was cut off: its stream ended before the answer did.")
            raise _Again("The model's server closed the stream before it said anything.")

    async def _bounded(self, response: httpx2.Response) -> AsyncGenerator[bytes]:
        size = 0
        async for chunk in response.aiter_bytes():
            size += len(chunk)
            if size > ANSWER_MAX:
                raise Failed(f"The model's answer is over the limit of {ANSWER_MAX} bytes.")
            yield chunk


async def _read_out(chunks: AsyncIterator[bytes]) -> None:
    """Read to the end that is due, so that the connection can be used again."""
    with contextlib.suppress(TimeoutError, httpx2.TransportError):
        async with asyncio.timeout(LAST_BYTES_S):
            async for _ in chunks:
                pass


def _hear(completion: Completion, data: str, hear: Callable[[Piece], None]) -> None:
    piece = completion.take(data)
    if piece is not None:
        hear(piece)


def _retry_after(value: str | None) -> float | None:
    """Seconds that the server asks for (RFC 9110, section 10.2.3); a date is left to the usual delay."""
    try:
        return max(0.0, float(value)) if value else None
    except ValueError:
        return None

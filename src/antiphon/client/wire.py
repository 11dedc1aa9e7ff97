"""Requests and responses as values, and the rules of the wire that sync and async share. No I/O here."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar, cast

from antiphon.client.errors import ApiError, UnexpectedAnswer

T = TypeVar("T")

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
EVENT_STREAM = "text/event-stream"


class Request(NamedTuple):
    """One HTTP request, relative to a host's address.

    `wait_s` is how long the host may keep the answer back (`Prefer: wait`). `repeatable` says that asking twice does no
    more than asking once, so that a lost answer is asked for again.
    """

    method: str
    path: str
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    wait_s: int = 0
    repeatable: bool = False


class Response(NamedTuple):
    """An HTTP response. Header names are lower case. A stream's body is read piece by piece and is empty here."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def is_event_stream(self) -> bool:
        """Whether server-sent events follow."""
        return self.status < 300 and self.headers.get("content-type", "").startswith(EVENT_STREAM)


class Exchange(NamedTuple, Generic[T]):
    """A request, and how the document in its answer is read."""

    request: Request
    read: Callable[[Any], T]


def quoted(name: str) -> str:
    """A name as one segment of a path. Names of dots alone are escaped too, for `..` would leave its place."""
    if not name.strip("."):
        return "%2E" * len(name)
    octets = name.encode(errors="surrogateescape")  # what was no UTF-8 on a command line is the host's to refuse
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in octets)


def query(fields: Mapping[str, Any]) -> str:
    """The query string of the fields that are not None; a list repeats its name."""
    pairs: list[str] = []
    for name, value in fields.items():
        values = cast("list[Any]", value) if isinstance(value, list) else [value]
        pairs += [f"{name}={quoted(str(each))}" for each in values if each is not None]
    return f"?{'&'.join(pairs)}" if pairs else ""


def encoded(document: Any) -> bytes:
    """JSON as UTF-8. A lone surrogate stays an escape: it is the host that refuses it."""
    return json.dumps(document, ensure_ascii=False).encode(errors="backslashreplace")


def document(response: Response) -> Any:
    """The JSON in a response; None where it has no body.

    Raises:
        ApiError: The host refused or failed.
        UnexpectedAnswer: It is not JSON.
    """
    if response.status >= 300:
        raise problem(response)
    if not response.body:
        return None
    try:
        return json.loads(response.body)
    except (ValueError, RecursionError):
        raise UnexpectedAnswer("The answer is not JSON: is this address an antiphon host?") from None


def problem(response: Response) -> ApiError | UnexpectedAnswer:
    """The error that a response of status 300 or above tells."""
    try:
        fields: Any = json.loads(response.body)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or "code" not in fields:
        return UnexpectedAnswer(f"The address answered {response.status} without a reason: is it an antiphon host?")
    return ApiError.of(response.status, cast("dict[str, Any]", fields), retry_after_s=retry_after_s(response))


def retry_after_s(response: Response) -> int | None:
    """`Retry-After` in seconds (RFC 9110, section 10.2.3; the host never sends a date)."""
    value = response.headers.get("retry-after", "")
    return int(value) if value.isascii() and value.isdigit() else None

"""Bodies of requests: read with a limit, then parsed strictly into forms."""

import asyncio
import hashlib
from typing import Any, TypeVar, cast

import msgspec
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, from_json
from starlette.types import Receive

from antiphon.core.errors import InvalidRequest, TooLarge
from antiphon.http.presence import Left
from antiphon.http.problems import RequestTimeout

F = TypeVar("F", bound=BaseModel)

WHOLE = "antiphon.whole"
"""Where the server says, in a request's state, that the body had arrived before the request was handled."""

ERRORS_SHOWN_MAX = 20
SHOWN_MAX = 80


async def read(receive: Receive, declared: str | None, limit: int, seconds: float | None) -> bytes:
    """The whole body.

    Args:
        receive: The request's channel.
        declared: The `Content-Length`, if there is one. A body that declares too much is refused unread.
        limit: The most bytes that are taken.
        seconds: How long it may take to arrive; None when all of it is there.

    Raises:
        TooLarge: It is larger than the limit.
        RequestTimeout: It did not arrive in time.
        Left: The client went before it had sent all.
    """
    if declared and declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit)
    if seconds is None:
        return await _collect(receive, limit)
    try:
        async with asyncio.timeout(seconds):
            return await _collect(receive, limit)
    except TimeoutError:
        raise RequestTimeout(f"The body did not arrive within {seconds:g} s.") from None


async def _collect(receive: Receive, limit: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Left
        piece: bytes = message.get("body", b"")
        size += len(piece)
        if size > limit:
            raise _too_large(limit)
        pieces.append(piece)
        if not message.get("more_body", False):
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"The body is over the limit of {limit} bytes. Send less, or name files by their path.", limit=limit
    )


def parse(form: type[F], body: bytes) -> F:
    """The form that a body holds.

    Raises:
        InvalidRequest: It holds something else. The error names each field and what is wrong with it.
    """
    try:
        parsed = form.model_validate_json(body)
    except ValidationError as error:
        raise invalid(error) from None
    if b"\\u0000" in body:
        refuse_nul(from_json(body))
    return parsed


def parse_object(body: bytes) -> dict[str, Any]:
    """The JSON object that a body holds, whatever is in it.

    Raises:
        InvalidRequest: It is not one.
    """
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidRequest(f"The body is not JSON: {_at(str(error))}.") from None
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object.")
    if b"\\u0000" in body:
        refuse_nul(value)
    return cast("dict[str, Any]", value)


def refuse_nul(value: Any) -> None:
    """Refuse U+0000 anywhere in a JSON value: not every store can keep it.

    Raises:
        InvalidRequest: It is there.
    """
    left: list[Any] = [value]
    while left:
        part = left.pop()
        if isinstance(part, str) and "\x00" in part:
            raise InvalidRequest("No text may contain the character U+0000.")
        if isinstance(part, dict):
            left += [each for member in cast("dict[str, Any]", part).items() for each in member]
        elif isinstance(part, list):
            left += cast("list[Any]", part)


def invalid(error: ValidationError, whole: str = "body") -> InvalidRequest:
    """What is wrong with a form, field by field. `whole` is what an error at no field is said of."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    if found[0]["type"] == "json_invalid":
        message = found[0]["msg"].removeprefix("Invalid JSON: ")
        return InvalidRequest(f"The body is not JSON: {_at(message)}.")
    errors = [{"pointer": _pointer(each), "detail": _words(each)} for each in found[:ERRORS_SHOWN_MAX]]
    detail = "; ".join(f"{each['pointer'] or f'the {whole}'}: {each['detail']}" for each in errors)
    return InvalidRequest(f"{detail}.", errors=errors)


def _at(message: str) -> str:
    return message or "it is empty"


def _pointer(error: ErrorDetails) -> str:
    """A JSON pointer (RFC 6901) to the place, with names cut that are longer than a person wants to read."""
    names = [str(part) for part in error["loc"] if part != "[key]"]
    cut = [name if len(name) <= SHOWN_MAX else f"{name[:SHOWN_MAX]}…" for name in names]
    return "".join(f"/{name.replace('~', '~0').replace('/', '~1')}" for name in cut)


def _words(error: ErrorDetails) -> str:
    match error["type"]:
        case "extra_forbidden":
            return "there is no such field"
        case "missing":
            return "this field is required"
        case "value_error":
            return error["msg"].removeprefix("Value error, ")
        case _:
            return error["msg"][:1].lower() + error["msg"][1:]


def digest(form: BaseModel) -> str:
    """What tells two bodies apart: of equal forms it is equal, however they were written down."""
    fields = form.model_dump(exclude_defaults=True)
    return hashlib.sha256(msgspec.json.encode(fields, order="sorted")).hexdigest()

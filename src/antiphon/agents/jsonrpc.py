"""JSON-RPC 2.0 in lines, as programs that are driven through their pipes speak it. No I/O here."""

import re
from typing import Any

import msgspec

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
"""JSON-RPC 2.0, section 5.1."""
ANSWER_HEAD = re.compile(rb'^\s*\{(?:\s*"jsonrpc"\s*:\s*"2\.0"\s*,)?\s*"id"\s*:\s*(\d+)\s*,\s*"(?:result|error)"')


class BadLine(Exception):
    """A line that is no message of the protocol."""


class Fault(msgspec.Struct, frozen=True):
    """Why a request was refused."""

    message: str = ""
    code: int = 0
    data: Any = None


class Refused(Exception):
    """The agent did not do what was asked of it.

    Attributes:
        fault: What it said, or what is to be said of it.
    """

    def __init__(self, fault: Fault | str) -> None:
        self.fault = Fault(fault) if isinstance(fault, str) else fault
        super().__init__(self.fault.message)


class Response(msgspec.Struct, frozen=True):
    """The answer to a request of ours. Either `fault` is set or `result` holds what it says."""

    id: int
    result: msgspec.Raw
    fault: Fault | None = None

    def read(self, kind: type[msgspec.Struct]) -> Any:
        """The result as a struct of that kind.

        Raises:
            Refused: There is no result, or not of that form.
        """
        if self.fault is not None:
            raise Refused(self.fault)
        try:
            return decoded(self.result, kind)
        except BadLine as error:
            raise Refused(f"its answer can't be read: {error}") from error


class Call(msgspec.Struct, frozen=True):
    """Something that the agent tells, or asks when it has an `id`."""

    method: str
    params: msgspec.Raw
    id: int | str | None = None

    def read(self, kind: type[msgspec.Struct]) -> Any:
        """The parameters as a struct of that kind.

        Raises:
            BadLine: They do not have that form.
        """
        return decoded(self.params, kind)


class _Envelope(msgspec.Struct):
    id: int | str | None = None
    method: str | None = None
    params: msgspec.Raw = msgspec.Raw(b"{}")
    result: msgspec.Raw = msgspec.Raw(b"{}")
    error: Fault | None = None


_decoder = msgspec.json.Decoder(_Envelope)


def read(line: bytes) -> Response | Call:
    """Read a line.

    Raises:
        BadLine: It is not JSON, not UTF-8, or not of the protocol.
    """
    try:
        envelope = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadLine(str(error)) from error
    if envelope.method is not None:
        return Call(envelope.method, envelope.params, envelope.id)
    if isinstance(envelope.id, int):
        return Response(envelope.id, envelope.result, envelope.error)
    raise BadLine("neither a request, nor a notification, nor an answer to a request of ours")


def mended(line: bytes) -> bytes | None:
    """The line with U+FFFD for what is not UTF-8 in it; None when it is UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.decode(errors="replace").encode()
    return None


def answered(line: bytes) -> int | None:
    """The request of ours that a line answers, known by its beginning, when the whole can't be read."""
    found = ANSWER_HEAD.match(line)
    return int(found[1]) if found else None


def unread(number: int, why: str) -> Response:
    """An answer of which no more is known than the request that it is for."""
    return Response(number, msgspec.Raw(b"{}"), Fault(why))


class Writer:
    """Makes our lines.

    Args:
        marked: Whether a message carries the version, as JSON-RPC 2.0, section 4, wants it; some programs leave it out.
    """

    def __init__(self, *, marked: bool) -> None:
        self._mark: dict[str, Any] = {"jsonrpc": "2.0"} if marked else {}

    def request(self, number: int, method: str, params: Any) -> bytes:
        """A request of ours."""
        return self._line(id=number, method=method, params=params)

    def notification(self, method: str, params: Any = None) -> bytes:
        """A notification of ours; one without parameters has no `params`."""
        return self._line(method=method, **({} if params is None else {"params": params}))

    def answer(self, number: int | str, result: Any) -> bytes:
        """The answer to a request of the agent's."""
        return self._line(id=number, result=result)

    def refusal(self, number: int | str, message: str, code: int = METHOD_NOT_FOUND) -> bytes:
        """The answer to a request of the agent's that can't be met."""
        return self._line(id=number, error={"code": code, "message": message})

    def _line(self, **fields: Any) -> bytes:
        return msgspec.json.encode({**self._mark, **fields})


def decoded(raw: msgspec.Raw, kind: type[msgspec.Struct]) -> Any:
    """A part of a message as a struct of that kind.

    Raises:
        BadLine: It does not have that form.
    """
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadLine(str(error)) from error

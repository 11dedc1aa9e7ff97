"""JSON-RPC as Codex speaks it: one JSON object a line, without `"jsonrpc"`. No I/O here."""

from typing import Any

import msgspec


class BadLine(Exception):
    """A line that is no message of the protocol."""


class Refused(Exception):
    """Codex did not do what was asked of it; the text says why."""


class Fault(msgspec.Struct, frozen=True):
    """Why a request was refused."""

    message: str = ""
    code: int = 0


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
            raise Refused(self.fault.message)
        try:
            return _decode(self.result, kind)
        except BadLine as error:
            raise Refused(f"its answer can't be read: {error}") from error


class Call(msgspec.Struct, frozen=True):
    """Something that Codex tells, or asks when it has an `id`."""

    method: str
    params: msgspec.Raw
    id: int | str | None = None

    def read(self, kind: type[msgspec.Struct]) -> Any:
        """The parameters as a struct of that kind.

        Raises:
            BadLine: They do not have that form.
        """
        return _decode(self.params, kind)


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


def request(number: int, method: str, params: Any) -> bytes:
    """A request of ours."""
    return msgspec.json.encode({"id": number, "method": method, "params": params})


def notification(method: str) -> bytes:
    """A notification of ours."""
    return msgspec.json.encode({"method": method})


def answer(number: int | str, result: Any) -> bytes:
    """The answer to a request of Codex's."""
    return msgspec.json.encode({"id": number, "result": result})


def refusal(number: int | str, message: str) -> bytes:
    """The answer to a request of Codex's that can't be met. JSON-RPC 2.0, section 5.1: -32601 is "method not found"."""
    return msgspec.json.encode({"id": number, "error": {"code": -32601, "message": message}})


def _decode(raw: msgspec.Raw, kind: type[msgspec.Struct]) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadLine(str(error)) from error

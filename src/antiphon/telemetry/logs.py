"""Logs: a constant message with known fields, a line each, as JSON or as text. Nothing that was said is in them.

A message is a constant; what differs stands in the fields of `FIELDS`, given by `extra`. Of an exception its type and
where it came from are told, never its words, for these may quote what somebody wrote.
"""

import logging
import sys
import traceback
from typing import Any, Literal, TextIO, cast

import msgspec

from antiphon.host.views import rfc3339

Form = Literal["json", "text"]

FIELDS = (
    "action",
    "session_id",
    "turn_id",
    "message_id",
    "permission_id",
    "run_id",
    "webhook_id",
    "delivery_id",
    "schedule_id",
    "agent",
    "task",
    "code",
    "reason",
    "kind",
    "call",
    "error",
    "method",
    "route",
    "status",
    "duration_ms",
    "host",
    "port",
    "pid",
    "exit_code",
    "count",
    "jobs",
    "attempt",
    "seconds",
    "store",
    "version",
)
"""The only fields that are written, in their order: ids, numbers, words of the project, and what a store's engine says
of its trouble. None can hold a secret."""

FRAMES_MAX = 12


def configure(form: Form = "text", level: int | str = "INFO", stream: TextIO | None = None) -> logging.Handler:
    """Write the logs of this process to a stream, standard error unless another is given.

    Replaces what an earlier call set up, so that it can be called again. Returns the handler.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    handler.addFilter(_unless_noise)
    root = logging.getLogger()
    for former in [each for each in root.handlers if isinstance(each.formatter, _Lines)]:
        root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(level)
    return handler


def _unless_noise(record: logging.LogRecord) -> bool:
    """Leave out what the HTTP server says of its own start and stop; its warnings and errors stay."""
    return not (record.name.startswith("uvicorn") and record.levelno < logging.WARNING)


class _Lines(logging.Formatter):
    """What both forms tell."""

    def told(self, record: logging.LogRecord) -> dict[str, Any]:
        """A record's fields in their order."""
        line: dict[str, Any] = {
            "at": rfc3339(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _one_line(record.getMessage()),
        }
        line |= {name: value for name in FIELDS if (value := record.__dict__.get(name)) is not None}
        if record.exc_info and record.exc_info[1]:
            line["exception"] = _exception(record.exc_info[1])
        return line


class JsonLines(_Lines):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        return msgspec.json.encode(self.told(record), enc_hook=str).decode()


class TextLines(_Lines):
    """Time, level, logger, message, then `name=value` for each field."""

    def format(self, record: logging.LogRecord) -> str:
        line = self.told(record)
        head = f"{line.pop('at')} {line.pop('level').upper():7} {line.pop('logger')}: {line.pop('message')}"
        exception = line.pop("exception", None)
        text = " ".join([head, *(f"{name}={_one_line(str(value))}" for name, value in line.items())])
        if exception is None:
            return text
        return "\n  ".join([f"{text} exception={exception['type']}", *exception["frames"]])


def _one_line(text: str) -> str:
    """A text without what would begin another line or another field's colours: nobody writes lines but the log."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text).strip()


def _exception(error: BaseException) -> dict[str, Any]:
    """An exception: the types of it and of its causes, and its innermost frames."""
    types: list[str] = []
    cause: BaseException | None = error
    while cause and len(types) < FRAMES_MAX:
        types.append(type(cause).__qualname__)
        cause = cause.__cause__ or _part(cause)
    innermost = _innermost(error)
    frames = traceback.extract_tb(innermost.__traceback__)[-FRAMES_MAX:]
    return {
        "type": " < ".join(types),
        "frames": [f"{_file(each.filename)}:{each.lineno} {each.name}" for each in frames],
    }


def _innermost(error: BaseException) -> BaseException:
    while part := _part(error):
        error = part
    return error


def _part(error: BaseException) -> BaseException | None:
    """The first error of a group; None of what is no group."""
    return cast("BaseExceptionGroup[BaseException]", error).exceptions[0] if _is_group(error) else None


def _is_group(error: BaseException) -> bool:
    return isinstance(error, BaseExceptionGroup)


def _file(path: str) -> str:
    """A file without the folders of this machine."""
    return "/".join(path.rsplit("/", 3)[-3:])

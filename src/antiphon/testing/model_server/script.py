"""What the model says: directives in the user's last message, obeyed in their order.

| directive | does |
|---|---|
| `[[say TEXT]]` | says TEXT |
| `[[think TEXT]]` | thinks TEXT |
| `[[recall]]` | says every text of the user that the request holds, joined with ` / ` |
| `[[output]]` | says the output of the last tool call |
| `[[slow N MS]]` | says N pieces, one each MS milliseconds |
| `[[hold NAME]]` | waits until NAME is released |
| `[[shell COMMAND]]` | calls the agent's shell; what follows is obeyed once the result is there |
| `[[tool NAME JSON]]` | calls the tool NAME with those arguments |
| `[[error STATUS]]` | answers with that HTTP status; 429 with `Retry-After: 1` |
| `[[error STATUS N]]` | does so for the first N requests of this message, then goes on |
| `[[error cut]]` | breaks the connection off in the middle of the stream |

Then it says `model: ` and the text that remains, in several pieces; nothing more when no text remains and something
was said already. A directive ends at the first `]]`. What follows a tool call belongs to the next request, which is
known by the number of results since the user's last message.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from antiphon.testing.model_server.conversation import Conversation, shell_arguments

DIRECTIVE = re.compile(r"\[\[([a-z]+)(?:\s+(.*?))?\]\]", re.DOTALL)


class ScriptError(Exception):
    """A directive that can't be obeyed. The text tells the author of the test why."""


class Step(msgspec.Struct, frozen=True):
    """One thing to do while answering."""


class Say(Step, frozen=True):
    text: str


class Think(Step, frozen=True):
    text: str


class Pause(Step, frozen=True):
    duration_ms: int


class Hold(Step, frozen=True):
    name: str


class Call(Step, frozen=True):
    name: str
    arguments: dict[str, Any]


class Refuse(Step, frozen=True):
    """Answer with an HTTP status instead; the first `times` requests of this message only, where it is given."""

    status: int
    times: int | None = None


class Cut(Step, frozen=True):
    """Break the connection off."""


def plan(conversation: Conversation) -> tuple[Step, ...]:
    """The steps of this request's answer: those between the last tool call that has its result and the next.

    Raises:
        ScriptError: A directive is unknown or has bad arguments.
    """
    remaining_calls = len(conversation.results)
    part: list[Step] = []
    for step in _all_steps(conversation):
        if not isinstance(step, Call):
            part.append(step)
        elif remaining_calls:
            remaining_calls -= 1
            part.clear()
        else:
            return (*part, step)
    return tuple(part)


def pieces(text: str) -> Iterator[str]:
    """`text` in several pieces, as a model would stream it; joined, they are `text`."""
    yield from re.findall(r"\s*\S+|\s+", text)


def _all_steps(conversation: Conversation) -> list[Step]:
    text = conversation.last_text
    steps: list[Step] = []
    for match in DIRECTIVE.finditer(text):
        steps += _obey(match[1], (match[2] or "").strip(), conversation)
    rest = DIRECTIVE.sub("", text).strip()
    if rest:
        steps.append(Say(f"model: {rest}"))
    elif not any(isinstance(step, Say) for step in steps):
        steps.append(Say("model: done"))
    return steps


def _obey(name: str, argument: str, conversation: Conversation) -> list[Step]:
    match name:
        case "say":
            return [Say(argument)]
        case "think":
            return [Think(argument)]
        case "recall":
            said = (DIRECTIVE.sub("", text).strip() for text in conversation.user_texts)
            return [Say(" / ".join(filter(None, said)))]
        case "output":
            return [Say(conversation.results[-1] if conversation.results else "")]
        case "slow":
            count, gap_ms = _numbers(name, argument, 2)
            return [step for number in range(count) for step in (Pause(gap_ms), Say(f"{number + 1} "))]
        case "hold":
            return [Hold(argument)]
        case "error":
            return [_error(argument)]
        case "shell":
            return [_shell(argument, conversation)]
        case "tool":
            return [_tool(argument)]
        case _:
            raise ScriptError(f"The model server knows no directive [[{name}]].")


def _shell(command: str, conversation: Conversation) -> Step:
    shell = conversation.shell
    if shell is None:
        raise ScriptError(f"The agent offers no shell, only {[tool.name for tool in conversation.tools]}.")
    return Call(shell.name, shell_arguments(shell, command))


def _tool(argument: str) -> Step:
    name, _, arguments = argument.partition(" ")
    try:
        return Call(name, msgspec.json.decode(arguments or "{}", type=dict[str, Any]))
    except msgspec.MsgspecError as error:
        raise ScriptError(f"[[tool {name}]] wants a JSON object as its arguments: {error}.") from error


def _error(argument: str) -> Step:
    if argument == "cut":
        return Cut()
    status, *times = _numbers("error", argument, 1, 2)
    return Refuse(status, times[0] if times else None)


def _numbers(name: str, argument: str, *counts: int) -> list[int]:
    words = argument.split()
    if len(words) not in counts or not all(word.isdecimal() for word in words):
        raise ScriptError(f"[[{name} {argument}]] wants {' or '.join(map(str, counts))} whole numbers.")
    return [int(word) for word in words]

"""What the model says: directives in what the user said, obeyed in their order.

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
| `[[error STATUS WORDS]]`, `[[error STATUS N WORDS]]` | gives WORDS for the reason |
| `[[error cut]]` | breaks the connection off in the middle of the stream |
| `[[verbatim]]` | says what follows as it stands, whatever it holds |

Then it says `model: ` and the text that remains, in several pieces; nothing more when no text remains and something
was said already. A directive ends at the first `]]`. What follows a tool call belongs to the next request, which is
known by the number of results since then.

It is the last message of the user that is answered. Where the agent tells which turn a request belongs to (Codex does)
or which messages came into the running turn (Claude Code does), they are answered one after the other, as far as they
have no answer yet.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from antiphon.testing.model_server.conversation import Conversation, shell_arguments

VERBATIM = "[[verbatim]]"
ERROR = re.compile(r"(\d{3})(?:\s+(\d+))?(?:\s+(.+))?", re.DOTALL)
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
    message: str = ""


class Cut(Step, frozen=True):
    """Break the connection off."""


def plan(conversation: Conversation, first: int) -> tuple[Step, ...]:
    """The steps of this request's answer: those between the last tool call that has its result and the next.

    Args:
        conversation: What the agent sent.
        first: The first of the messages that are to be answered.

    Raises:
        ScriptError: A directive is unknown or has bad arguments.
    """
    messages = conversation.messages[first:]
    results = [result for message in messages for result in message.results]
    remaining_calls = len(results)
    part: list[Step] = []
    for step in (step for message in messages for step in _steps(message.text, results, conversation)):
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


def spoken(text: str) -> str:
    """What a user's text says without its directives."""
    plain, verbatim, literal = text.partition(VERBATIM)
    rest = DIRECTIVE.sub("", plain).strip()
    return rest + literal if verbatim else rest


def _steps(text: str, results: list[str], conversation: Conversation) -> list[Step]:
    plain, verbatim, literal = text.partition(VERBATIM)
    steps: list[Step] = []
    for match in DIRECTIVE.finditer(plain):
        steps += _obey(match[1], (match[2] or "").strip(), results, conversation)
    if verbatim:
        return [*steps, Say(literal)]
    rest = spoken(plain)
    if rest:
        steps.append(Say(f"model: {rest}"))
    elif not any(isinstance(step, Say) for step in steps):
        steps.append(Say("model: done"))
    return steps


def _obey(name: str, argument: str, results: list[str], conversation: Conversation) -> list[Step]:
    match name:
        case "say":
            return [Say(argument)]
        case "think":
            return [Think(argument)]
        case "recall":
            return [Say(" / ".join(filter(None, map(spoken, conversation.user_texts))))]
        case "output":
            return [Say(results[-1] if results else "")]
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
    found = ERROR.fullmatch(argument)
    if found is None:
        raise ScriptError(f"[[error {argument}]] wants `cut`, or a status, a number and words.")
    status, times, words = int(found[1]), found[2], found[3]
    return Refuse(status, int(times) if times else None, words or f"The script wanted status {status}.")


def _numbers(name: str, argument: str, count: int) -> list[int]:
    words = argument.split()
    if len(words) != count or not all(word.isdecimal() for word in words):
        raise ScriptError(f"[[{name} {argument}]] wants {count} whole numbers.")
    return [int(word) for word in words]

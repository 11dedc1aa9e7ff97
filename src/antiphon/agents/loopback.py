"""How an agent is tried out with no key and no network: pointed to the model server on this machine.

An adapter joins in with a class method that `antiphon agent check --loopback` and `--fault-lab` call:

    @classmethod
    def loopback(cls, options: Mapping[str, Any], model_url: str, directory: Path) -> Loopback: ...

`options` is the agent's table of the configuration, `model_url` the server's address without a path (an OpenAI client
wants `model_url + "/v1"`), and `directory` an empty directory that is HOME to the agent's process, where what it reads
may be written. The model server obeys directives in prompts, see `antiphon.testing.model_server.script`; an adapter
whose agent passes prompts on to it need only change the options. One without the method is taken to answer each prompt
with something that holds the prompt.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

MODEL = "fake-model"


def verbatim(word: str) -> str:
    """A prompt that the model server answers with the word, whatever is in it."""
    return f"[[verbatim]]{word}"


def held(gate: str, word: str) -> str:
    """A prompt whose answer waits at a gate, then is the word."""
    return f"[[hold {gate}]] {word}"


def recalled() -> str:
    """A prompt that is answered with everything that the conversation held."""
    return "[[recall]]"


def failing(reason: str) -> str:
    """A prompt whose model call fails for a reason, and is not worth another try."""
    return f"[[error 400 {reason}]]"


class Loopback(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that talks to the model server, and the prompts that make it do what a check needs; None where it can't.

    Attributes:
        options: The agent's table, changed so that it reaches the model server and nothing else.
        model: The model to ask it for.
        says: A word -> a prompt that is answered with the word in the answer.
        holds: The name of a gate, and a word -> a prompt whose turn runs until the gate is opened, then says the word.
        recalls: A prompt that is answered with what the conversation was about.
        asks: A question -> a prompt that makes it ask for a permission, with the question in the request.
        fails: A reason -> a prompt whose turn fails for this reason.
        dies: An exit code -> a prompt in whose turn its process exits.
        stubborn: The name of a gate -> a prompt that says something, holds there, and ignores a cancel and SIGTERM.
        late: The name of a gate, and a word -> a prompt that says something, holds there, and says the word after a
            cancel.
        spawns: A prompt that leaves a process behind which ignores SIGTERM.
        answers: Whether the word can be expected in the answer at all; else only that there is an answer. None where
            nobody can know before it was asked.
        verbatim: Whether `says` brings back any text exactly, not only a word.
        patience_s: How long any one step may take on a busy machine.
    """

    options: Mapping[str, Any]
    model: str | None = MODEL
    says: Callable[[str], str] = verbatim
    holds: Callable[[str, str], str] | None = held
    recalls: Callable[[], str] | None = recalled
    asks: Callable[[str], str] | None = None
    fails: Callable[[str], str] | None = failing
    dies: Callable[[int], str] | None = None
    stubborn: Callable[[str], str] | None = None
    late: Callable[[str, str], str] | None = None
    spawns: Callable[[], str] | None = None
    answers: bool | None = True
    verbatim: bool = True
    patience_s: float = 30.0


def loopback_of(kind: object, options: Mapping[str, Any], model_url: str, directory: Path) -> Loopback:
    """How an adapter, given by its class, is pointed to the model server."""
    point = getattr(kind, "loopback", None)
    if callable(point):
        pointed = point(options, model_url, directory)
        assert isinstance(pointed, Loopback), f"{kind}.loopback returns a Loopback"
        return pointed
    return Loopback(
        options=options, model=None, says=str, holds=None, recalls=None, fails=None, verbatim=False, patience_s=10.0
    )

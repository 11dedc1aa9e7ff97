"""How a simulated agent behaves: drawn anew for every process and every turn."""

import random

import msgspec

from antiphon.testing.simulation.weather import Weather


class Temper(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent does in one turn.

    Attributes:
        pieces: Into how many pieces it cuts what it says of one part of its prompt.
        pause_s: How long it thinks before each piece at the most.
        tool, thinks, asks: Whether it uses a tool, thinks aloud, asks a person.
        end: How the turn ends by itself: `completed`, `failed`, `exit` (it dies), `break` (its adapter raises).
        on_cancel: What a cancel does: `ends`, `completes` (as if nothing was asked), `late`, `never`, `exit`, `raises`.
        again: It says its end twice.
        talks_on: It says something more of the turn after its end.
        begins: It begins a turn by itself afterwards.
        steers: What it does with a steer: `taken`, `declined`, `exit`, `raises`.
        answered: Whether it raises when its question is answered.
        prompt_raises: It raises instead of taking the prompt.
    """

    pieces: int
    pause_s: float
    tool: bool
    thinks: bool
    asks: bool
    end: str
    on_cancel: str
    again: bool
    talks_on: bool
    begins: bool
    steers: str
    answer_raises: bool
    prompt_raises: bool


def temper(dice: random.Random, weather: Weather) -> Temper:
    """What an agent does in its next turn."""

    def happens(rate: float) -> bool:
        return dice.random() < rate

    raises = happens(weather.raises)
    where = dice.choice(("prompt", "answer", "steer", "cancel", "said")) if raises else ""
    end = "completed"
    if happens(weather.dies):
        end = "exit"
    elif where == "said":
        end = "break"
    elif happens(0.08):
        end = "failed"
    on_cancel = dice.choice(("ends", "ends", "completes"))
    if where == "cancel":
        on_cancel = "raises"
    elif happens(weather.deaf):
        on_cancel = dice.choice(("late", "never", "exit"))
    return Temper(
        pieces=dice.randint(1, 3),
        pause_s=dice.choice((0.0, 0.02, 0.1, 0.4)),
        tool=happens(0.15),
        thinks=happens(0.1),
        asks=happens(weather.asks),
        end=end,
        on_cancel=on_cancel,
        again=happens(weather.doubles),
        talks_on=happens(weather.doubles),
        begins=happens(weather.begins),
        steers="raises" if where == "steer" else dice.choice(("taken", "taken", "declined", "exit")),
        answer_raises=where == "answer",
        prompt_raises=where == "prompt",
    )

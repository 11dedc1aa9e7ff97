"""How a takeover is timed: from the death to the first thing that only a next owner writes."""

import pytest

from antiphon.testing.chaos.watch import Happening, taken_over_after_ms

DIED_AT = 1000.0


def happened(*told: tuple[str, float]) -> list[Happening]:
    """Events by their words, such as `turn.started t`, and times."""
    return [
        Happening(kind, name if kind.startswith("turn") else None, name if kind.startswith("message") else None, at)
        for (kind, _, name), at in ((words.partition(" "), at) for words, at in told)
    ]


@pytest.mark.parametrize(
    ("told", "took_ms"),
    [
        ([("message.accepted m", 1), ("turn.started t", 2), ("turn.ended t", 1700)], 700),
        ([("message.accepted m", 1), ("turn.started t", 1900)], 900),
        ([("message.accepted m", 1), ("turn.started t", 2), ("message.accepted n", 1100), ("turn.ended t", 1800)], 800),
    ],
    ids=["a running turn ends", "a waiting message runs", "what clients ask for does not count"],
)
def test_a_takeover_lasts_until_the_next_owner_writes(told: list[tuple[str, float]], took_ms: float) -> None:
    assert taken_over_after_ms(happened(*told), DIED_AT) == took_ms


@pytest.mark.parametrize(
    "told",
    [
        [("message.accepted m", 1), ("turn.started t", 2), ("message.ended m", 3), ("turn.ended t", 3)],
        [("message.accepted m", 1), ("turn.started t", 2), ("message.ended m", 1010), ("turn.ended t", 1010)],
    ],
    ids=["all was answered before", "all was answered by the host's last words"],
)
def test_where_nothing_was_at_work_nothing_is_timed(told: list[tuple[str, float]]) -> None:
    assert taken_over_after_ms(happened(*told, ("turn.started u", 5000)), DIED_AT) is None

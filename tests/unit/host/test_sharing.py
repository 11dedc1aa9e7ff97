"""What many viewers are told alike is made once, and the memory of it is bounded."""

from antiphon.host.sharing import Shared


class Thing:
    """Something that is itself and nothing else."""

    def __init__(self, size: int) -> None:
        self.size = size


def test_the_same_thing_gives_the_same_and_another_that_is_equal_its_own() -> None:
    shared = Shared[Thing, list[int]](lambda thing: [thing.size], keeps=lambda made: made[0] < 10)
    one, twin, large = Thing(1), Thing(1), Thing(10)
    assert shared(one) is shared(one)
    assert shared(one) is not shared(twin)
    assert shared(large) == [10]
    assert shared(large) is not shared(large), "what is large is not kept"


def test_no_more_are_kept_than_the_limit_and_the_last_ones() -> None:
    made: list[int] = []

    def make(thing: Thing) -> int:
        made.append(thing.size)
        return thing.size

    shared = Shared[Thing, int](make, keeps=lambda _: True, limit=3)
    things = [Thing(number) for number in range(5)]
    assert [shared(thing) for thing in things] == [0, 1, 2, 3, 4]
    assert [shared(thing) for thing in things[2:]] == [2, 3, 4]
    assert made == [0, 1, 2, 3, 4]
    assert shared(things[0]) == 0
    assert made == [0, 1, 2, 3, 4, 0]
    things.clear()
    assert [shared(Thing(number)) for number in range(100)] == list(range(100)), (
        "an id that comes again is another thing"
    )

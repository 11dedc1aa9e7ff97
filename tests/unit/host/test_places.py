import pytest

from antiphon.host.places import Places


class Visitor:
    """A guest that notes what it was called for."""

    def __init__(self, name: str, *, idle: bool = False) -> None:
        self.name = name
        self.idle = idle
        self.woken = 0
        self.asked_to_go = 0

    def wake(self) -> None:
        self.woken += 1

    def let_go(self) -> None:
        self.asked_to_go += 1

    def __repr__(self) -> str:
        return self.name


@pytest.fixture
def visitors() -> list[Visitor]:
    return [Visitor(name) for name in "abcdef"]


def test_no_more_guests_than_places_are_let_in(visitors: list[Visitor]) -> None:
    places = Places(2)
    assert [places.take(visitor) for visitor in visitors[:3]] == [True, True, False]
    assert places.taken == 2


def test_a_guest_that_asks_again_keeps_its_one_place(visitors: list[Visitor]) -> None:
    places = Places(2)
    assert places.take(visitors[0])
    assert places.take(visitors[0])
    assert places.taken == 1


def test_those_who_wait_are_served_in_the_order_in_which_they_asked(visitors: list[Visitor]) -> None:
    places = Places(1)
    first, *others = visitors
    places.take(first)
    for visitor in others:
        assert not places.take(visitor)
    places.give_back(first)
    assert [visitor.woken for visitor in others] == [1, 0, 0, 0, 0]
    assert not places.take(others[1]), "it stands behind another"
    assert places.take(others[0])


def test_asking_again_does_not_cost_one_s_place_in_line(visitors: list[Visitor]) -> None:
    places = Places(1)
    holder, early, late = visitors[:3]
    places.take(holder)
    places.take(early)
    places.take(late)
    places.take(early)
    places.give_back(holder)
    assert places.take(early)


def test_a_newcomer_does_not_jump_the_line_when_a_place_becomes_free(visitors: list[Visitor]) -> None:
    places = Places(1)
    holder, waiting, newcomer = visitors[:3]
    places.take(holder)
    places.take(waiting)
    places.give_back(holder)
    assert not places.take(newcomer)
    assert places.take(waiting)


def test_when_the_one_that_was_woken_leaves_the_line_the_next_one_is_woken(visitors: list[Visitor]) -> None:
    places = Places(1)
    holder, gone, following = visitors[:3]
    places.take(holder)
    places.take(gone)
    places.take(following)
    places.give_back(holder)
    places.give_back(gone)
    assert following.woken == 1
    assert places.take(following)


def test_giving_back_twice_frees_one_place(visitors: list[Visitor]) -> None:
    places = Places(2)
    places.take(visitors[0])
    places.take(visitors[1])
    places.give_back(visitors[0])
    places.give_back(visitors[0])
    assert places.taken == 1


def test_one_that_never_asked_can_give_back(visitors: list[Visitor]) -> None:
    places = Places(1)
    places.take(visitors[0])
    places.take(visitors[1])
    places.give_back(visitors[2])
    assert (places.taken, visitors[1].woken) == (1, 0)


def test_who_waits_makes_the_guest_that_has_been_idle_longest_go(visitors: list[Visitor]) -> None:
    places = Places(3)
    old, busy, young = Visitor("old", idle=True), visitors[0], Visitor("young", idle=True)
    for guest in (old, busy, young):
        places.take(guest)
    assert not places.take(visitors[1])
    assert (old.asked_to_go, busy.woken, young.asked_to_go) == (1, 0, 0)


def test_a_guest_that_used_its_place_lately_is_not_the_one_idle_longest(visitors: list[Visitor]) -> None:
    places = Places(2)
    first, second = Visitor("first", idle=True), Visitor("second", idle=True)
    places.take(first)
    places.take(second)
    places.take(first)
    places.take(visitors[0])
    assert (first.asked_to_go, second.asked_to_go) == (0, 1)


def test_no_more_guests_are_asked_to_go_than_wait(visitors: list[Visitor]) -> None:
    places = Places(3)
    idle = [Visitor(name, idle=True) for name in "xyz"]
    for guest in idle:
        places.take(guest)
    places.take(visitors[0])
    assert [guest.asked_to_go for guest in idle] == [1, 0, 0]
    places.take(visitors[1])
    assert sum(bool(guest.asked_to_go) for guest in idle) == 2


def test_nobody_is_asked_to_go_while_there_is_a_free_place_for_all_who_wait(visitors: list[Visitor]) -> None:
    places = Places(2)
    idle = Visitor("idle", idle=True)
    places.take(idle)
    places.make_room()
    assert places.take(visitors[0])
    assert idle.asked_to_go == 0


def test_whether_a_guest_stands_in_line_can_be_asked(visitors: list[Visitor]) -> None:
    places = Places(1)
    places.take(visitors[0])
    places.take(visitors[1])
    assert [places.waits(visitor) for visitor in visitors[:3]] == [False, True, False]


def test_who_used_its_place_once_lets_those_who_wait_go_first(visitors: list[Visitor]) -> None:
    places = Places(1)
    holder, waiting = visitors[:2]
    places.take(holder)
    places.take(waiting)
    assert not places.take(holder)
    assert not places.take(holder), "asking again changes nothing"
    assert (holder.asked_to_go, waiting.woken) == (1, 0)
    places.vacate(holder)
    assert waiting.woken == 1
    assert not places.take(holder), "it stands behind who waited"
    assert places.take(waiting)
    assert not places.take(waiting), "and is served likewise"
    places.vacate(waiting)
    assert places.take(holder)


def test_who_holds_a_place_keeps_it_while_there_is_room_for_all_who_wait(visitors: list[Visitor]) -> None:
    places = Places(2)
    holder, waiting = visitors[0], visitors[1]
    idle = Visitor("idle", idle=True)
    places.take(holder)
    places.take(idle)
    places.take(waiting)
    assert idle.asked_to_go == 1
    assert places.take(holder), "the idle one makes room"
    places.give_back(idle)
    assert places.take(waiting)


def test_when_nobody_waits_any_more_who_was_to_make_room_stays(visitors: list[Visitor]) -> None:
    places = Places(1)
    holder, waiting = visitors[:2]
    places.take(holder)
    places.take(waiting)
    assert not places.take(holder)
    places.give_back(waiting)
    assert places.take(holder)
    assert not places.waits(holder)


def test_vacating_a_place_that_one_does_not_hold_frees_none(visitors: list[Visitor]) -> None:
    places = Places(1)
    places.take(visitors[0])
    places.vacate(visitors[1])
    assert places.taken == 1

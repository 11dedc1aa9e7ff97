import pytest

from antiphon.core.errors import InvalidRequest
from antiphon.host.cursors import parsed


def test_a_cursor_is_an_epoch_and_a_sequence() -> None:
    assert parsed("2024.a-b_C:17") == ("2024.a-b_C", 17)


@pytest.mark.parametrize(
    "cursor",
    ["", "17", "e:", ":17", "e:-1", "e:1.5", "e:1:2", "e e:1", "e:1 ", "é:1", "e:" + "9" * 19, "e" * 81 + ":1"],
)
def test_what_no_event_carried_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequest):
        parsed(cursor)

"""What the host shows, as objects."""

import pytest

from antiphon.client import Receipt, Session, Turn, UnexpectedAnswer
from antiphon.client.documents import ENDS
from antiphon.host import views


def test_known_fields_are_attributes_and_new_ones_are_kept() -> None:
    receipt = Receipt.read({"id": "msg_1", "state": "answered", "from_the_future": 1})

    assert (receipt.id, receipt.reply, receipt.ended) == ("msg_1", None, True)
    assert receipt.document["from_the_future"] == 1
    with pytest.raises(AttributeError, match="from_the_future"):
        _ = receipt.from_the_future  # pyright: ignore[reportAttributeAccessIssue]


def test_errors_and_costs_are_objects_too() -> None:
    turn = Turn.read({"id": "turn_1", "state": "failed", "error": {"code": "agent_failed", "detail": "It died."}})

    assert turn.error
    assert (turn.error.code, turn.error.detail, turn.usage, turn.ended) == ("agent_failed", "It died.", None, True)


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_message_on_its_way_has_not_ended(state: str) -> None:
    assert not Receipt.read({"state": state}).ended
    assert state not in ENDS


def test_what_is_no_object_is_unexpected() -> None:
    with pytest.raises(UnexpectedAnswer, match="receipt"):
        Receipt.read(["msg_1"])


def test_documents_are_equal_by_what_they_say_and_kind() -> None:
    assert Session.read({"id": "x"}) == Session.read({"id": "x"}) != Session.read({"id": "y"})
    assert Session.read({"id": "x"}) != Turn.read({"id": "x"})
    assert len({Session.read({"id": "x"}), Session.read({"id": "x"})}) == 1
    assert repr(Session.read({"id": "ses_1", "status": "idle", "settings": {}})) == "Session(id='ses_1', status='idle')"


@pytest.mark.parametrize(
    ("document", "view"),
    [("Receipt", "Receipt"), ("Session", "SessionView"), ("Turn", "TurnView"), ("Permission", "PermissionView"),
     ("Line", "TranscriptItem"), ("Event", "EventView"), ("Agent", "AgentView"), ("Cancelled", "Cancelled")],
)  # fmt: skip
def test_a_document_has_every_field_that_the_host_shows(document: str, view: str) -> None:
    import antiphon.client

    kind = getattr(antiphon.client, document)

    assert {name for name in getattr(views, view).__struct_fields__ if not hasattr(kind({}), name)} == set()

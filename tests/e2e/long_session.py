"""A session of so many turns, as an export of one that a host has made: faster than having them answered."""

from typing import Any


def export(turns: int) -> dict[str, Any]:
    """What `POST /v1/sessions/import` takes; the last answer begins with "Answer" and the number of turns."""
    at, entries, session_id = 1_780_000_000_000, list[dict[str, Any]](), f"ses_{0:032x}"

    def add(kind: str, **fields: Any) -> None:
        place = {"session_id": session_id, "sequence": len(entries) + 1, "generation": 1}
        entries.append(place | {"type": kind, "at": at + len(entries)} | fields)

    add("session.created", data={"agent": "echo", "title": f"{turns} turns"})
    for number in range(1, turns + 1):
        message, turn = f"msg_{number:032x}", f"turn_{number:032x}"
        add(
            "message.accepted",
            message_id=message,
            data={"text": f"question {number}", "when_busy": "queue", "place": 0},
        )
        add("turn.started", turn_id=turn, data={"message_ids": [message]})
        add("turn.text", turn_id=turn, data={"text": f"Answer **{number}**\n\n- with a list\n- of `two`\n"})
        add("turn.ended", turn_id=turn, data={"state": "completed"})
        add("message.ended", message_id=message, turn_id=turn, data={"state": "answered"})
    return {"antiphon_export": 1, "session": {"key": None}, "entries": entries}

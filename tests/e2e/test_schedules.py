"""Random schedules from eight clients against a real host with `echo`: `make fuzz` plays a thousand, this a few."""

import subprocess
import sys

from antiphon.client.documents import Receipt
from antiphon.testing.schedules import Played, findings
from antiphon.testing.schedules.schedule import Sent
from e2e.stores import ON_BOTH


@ON_BOTH
def test_whoever_sends_what_in_whichever_mode_every_message_ends_and_every_answer_is_its_own(store: str) -> None:
    count = "24" if store == "sqlite" else "12"
    command = [sys.executable, "-m", "antiphon.testing.schedules", "--schedules", count, "--from", "5000"]
    done = subprocess.run([*command, "--store", store], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr[-3000:]}"
    assert done.stdout.startswith(f"{count} schedules, ")


def entry(
    sequence: int, kind: str, *, turn: str | None = None, message: str | None = None, **data: object
) -> dict[str, object]:
    return {"sequence": sequence, "generation": 1, "type": kind, "turn_id": turn, "message_id": message, "data": data}


def played(reply: str, said: str, *, state: str = "answered") -> Played:
    """One message, answered with what its turn said, or with something else."""
    end = Receipt.read({"id": "m", "state": state, "turn_id": "t", "reply": reply})
    journal = [
        entry(1, "session.created"),
        entry(2, "message.accepted", message="m", when_busy="queue", place=0),
        entry(3, "turn.started", turn="t", message_ids=["m"]),
        entry(4, "turn.text", turn="t", text=said),
        entry(5, "turn.ended", turn="t", state="completed"),
        entry(6, "message.ended", turn="t", message="m", state="answered"),
    ]
    return Played(seed=1, sent=[Sent(token="<c0.1>", id="m", end=end)], unexpected=[], journal=journal)


def test_the_checks_notice_what_may_not_be() -> None:
    assert findings(played("echo: <c0.1>", "echo: <c0.1>")) == []
    assert any("(P4)" in each for each in findings(played("echo: <c0.2>", "echo: <c0.2>")))
    assert any("did not say" in each for each in findings(played("<c0.1> and more", "<c0.1>")))
    assert any("(P3)" in each for each in findings(played("<c0.1>", "<c0.1>", state="running")))
    gap = played("<c0.1>", "<c0.1>")
    del gap.journal[3]
    assert any("a gap" in each for each in findings(gap))

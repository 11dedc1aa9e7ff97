"""A session's story: the fold of its events."""

from itertools import count
from typing import Any

from antiphon.client.documents import Event
from antiphon.terminal.story import ITEMS_MAX, Note, Part, Run, Said, Story


class Journal:
    """Tells a story events, numbered as they come."""

    def __init__(self) -> None:
        self.story = Story()
        self._numbers = count(1)

    def tell(self, kind: str, message: str | None = None, turn: str | None = None, **data: Any) -> bool:
        """One more event."""
        fields = {"cursor": f"e:{next(self._numbers)}", "type": kind, "at": "2026-01-01T00:00:00.000Z", "data": data}
        return self.story.take(Event(fields | {"message_id": message, "turn_id": turn}))

    def turn(self, number: int) -> None:
        """A whole turn."""
        message, turn = f"msg_{number}", f"turn_{number}"
        self.tell("message.accepted", message, text=f"text {number}", when_busy="queue", place=0)
        self.tell("turn.started", turn=turn, message_ids=[message])
        self.tell("turn.text", turn=turn, text=f"answer {number}")
        self.tell("message.ended", message, turn, state="answered")
        self.tell("turn.ended", turn=turn, state="completed", usage={"input_tokens": 1})


def shown(story: Story) -> list[str]:
    """What there is to see, in words."""
    words: list[str] = []
    for item in story.items:
        match item:
            case Said():
                words.append(f"said {item.text}")
            case Run():
                words.append(f"{item.state} {' '.join(_part(part) for part in item.parts)}".strip())
            case Note():
                words.append(item.text)
    return words


def _part(part: Part) -> str:
    return f"{part.kind}:{part.name or part.text}:{part.outcome}" if part.kind == "tool" else f"{part.kind}:{part.text}"


def test_a_turn_is_what_was_said_in_its_order() -> None:
    journal = Journal()
    journal.tell("message.accepted", "m", text="do it", when_busy="queue", place=0)
    assert [one.text for one in journal.story.waiting] == ["do it"]
    journal.tell("turn.started", turn="t", message_ids=["m"])
    assert journal.story.running
    journal.tell("turn.thought", turn="t", text="hm")
    journal.tell("turn.text", turn="t", text="I ")
    journal.tell("turn.text", turn="t", text="look")
    journal.tell("turn.tool_started", turn="t", tool_id="1", name="Read", input={"path": "x"})
    journal.tell("turn.tool_started", turn="t", tool_id="2", name="Grep")
    journal.tell("turn.tool_ended", turn="t", tool_id="1", outcome="completed", output="y")
    journal.tell("turn.text", turn="t", text="done")
    journal.tell("turn.ended", turn="t", state="completed")
    assert shown(journal.story) == [
        "said do it",
        "completed thought:hm text:I look tool:Read:completed tool:Grep:aborted text:done",
    ]
    assert (journal.story.waiting, journal.story.running, journal.story.cursor) == ([], None, "e:10")


def test_a_steer_is_shown_where_the_agent_took_it() -> None:
    journal = Journal()
    journal.tell("turn.started", turn="t", message_ids=["m"])
    journal.tell("message.accepted", "s", text="also this", when_busy="steer", place=0)
    journal.tell("turn.text", turn="t", text="a")
    journal.tell("turn.steered", "s", "t")
    journal.tell("turn.text", turn="t", text="b")
    journal.tell("message.ended", "s", "t", state="answered")
    assert shown(journal.story) == ["said …", "running text:a steer:also this text:b"]


def test_the_queue_is_kept_in_its_order_through_all_that_happens_to_it() -> None:
    journal = Journal()
    for name in "abcd":
        journal.tell("message.accepted", name, text=name, when_busy="queue", place="abcd".index(name))
    journal.tell("message.accepted", "e", text="e", when_busy="interrupt", place=0)
    journal.tell("queue.reordered", order=["d", "e", "c", "b", "a"])
    journal.tell("message.edited", "c", text="C", when_busy="steer")
    journal.tell("message.withdrawn", "b")
    journal.tell("message.ended", "b", state="withdrawn")
    journal.tell("message.ended", "a", state="cancelled", error={"code": "x", "detail": "too late"})
    assert [(one.text, one.when_busy) for one in journal.story.waiting] == [
        ("d", "queue"),
        ("e", "interrupt"),
        ("C", "steer"),
    ]
    assert shown(journal.story) == ["said a", "That message was cancelled: too late."]


def test_a_message_that_runs_again_after_a_crash_is_said_once() -> None:
    journal = Journal()
    journal.tell("message.accepted", "m", text="again", when_busy="queue", place=0)
    journal.tell("turn.started", turn="t1", message_ids=["m"])
    journal.tell("turn.ended", turn="t1", state="interrupted")
    journal.tell("message.requeued", "m")
    assert [one.text for one in journal.story.waiting] == ["again"]
    journal.tell("turn.started", turn="t2", message_ids=["m"])
    assert shown(journal.story) == ["said again", "interrupted", "running"]


def test_questions_are_open_until_they_are_settled() -> None:
    journal = Journal()
    journal.tell("turn.started", turn="t", message_ids=[])
    journal.tell("permission.requested", turn="t", permission_id="p1", question="May I?", options=[{"id": "yes"}])
    journal.tell("permission.requested", turn="t", permission_id="p2", question="And this?")
    assert [asked.question for asked in journal.story.asked] == ["May I?", "And this?"]
    journal.tell("permission.answered", turn="t", permission_id="p1", decision="allow", by="me")
    journal.tell("permission.expired", turn="t", permission_id="p2", reason="turn_ended")
    assert journal.story.asked == []
    assert shown(journal.story) == ["running note:May I?: allow by me note:And this?: expired: turn_ended"]


def test_a_turn_whose_beginning_is_not_told_is_shown_as_cut() -> None:
    journal = Journal()
    journal.tell("turn.text", turn="t", text="… the rest")
    (run,) = journal.story.items
    assert isinstance(run, Run)
    assert run.cut
    assert journal.story.running is run


def test_a_story_is_bounded_and_keeps_its_end() -> None:
    journal = Journal()
    for number in range(ITEMS_MAX):
        journal.turn(number)
    assert len(journal.story.items) <= ITEMS_MAX
    assert shown(journal.story)[-1] == f"completed text:answer {ITEMS_MAX - 1}"


def test_a_story_ends_at_a_gap() -> None:
    journal = Journal()
    journal.turn(1)
    assert not journal.tell("gap", asked_for="e:1")
    assert journal.story.cursor == "e:5"


def test_what_happens_to_the_session_is_noted_and_what_is_not_known_is_left_out() -> None:
    journal = Journal()
    journal.tell("session.stopped")
    journal.tell("session.resumed")
    journal.tell("session.cleared", generation=2, reason="idle")
    journal.tell("queue.paused")
    journal.tell("queue.continued")
    journal.tell("something.new", what="?")
    journal.tell("session.deleted")
    assert shown(journal.story) == [
        "Stopped. A message is refused until somebody resumes it.",
        "Resumed.",
        "A new transcript, generation 2 (idle).",
        "Paused. What waits goes on waiting.",
        "No longer paused.",
        "The session was deleted.",
    ]
    assert journal.story.deleted

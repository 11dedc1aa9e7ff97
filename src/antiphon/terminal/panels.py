"""What stands between the conversation and the prompt: what the agent asks, and what waits."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Button, OptionList, Static
from textual.widgets.option_list import Option

from antiphon.terminal.sight import plain, row
from antiphon.terminal.story import Question, Waiting


class Decided(Message):
    """A person has answered a question."""

    def __init__(self, permission_id: str, decision: str, option_id: str | None = None) -> None:
        super().__init__()
        self.permission_id, self.decision, self.option_id = permission_id, decision, option_id


class Choice(Button):
    """One answer to a question."""

    def __init__(self, permission_id: str, label: str, decision: str, option_id: str | None) -> None:
        kind = "success" if decision == "allow" else "error"
        super().__init__(row(label), variant=kind, compact=True)
        self._decided = permission_id, decision, option_id

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Tell what it stands for."""
        event.stop()
        self.post_message(Decided(*self._decided))


class Asked(Vertical):
    """One open question with its answers: the agent's own options where it has some, else allow and deny."""

    def __init__(self, question: Question) -> None:
        super().__init__(classes="asked")
        self.question = question

    def compose(self) -> ComposeResult:
        """The question, then a row of buttons."""
        question = self.question
        tool = f"{question.tool}: " if question.tool else ""
        yield Static(plain(f"? {tool}{question.question}"), markup=False)
        with Horizontal():
            for label, decision, option_id in _answers(question):
                yield Choice(question.permission_id, label, decision, option_id)


def _answers(question: Question) -> list[tuple[str, str, str | None]]:
    answers: list[tuple[str, str, str | None]] = []
    for option in question.options:
        kind = str(option.get("kind") or "")
        option_id = str(option.get("id") or "")
        decision = "deny" if kind.startswith(("reject", "deny")) or option_id in ("deny", "reject") else "allow"
        answers.append((str(option.get("name") or option_id), decision, option_id or None))
    return answers or [("Allow", "allow", None), ("Deny", "deny", None)]


class Questions(Vertical):
    """All open questions."""

    async def sync(self, asked: Sequence[Question]) -> None:
        """Show these."""
        wanted = {question.permission_id for question in asked}
        views = list(self.query(Asked))
        await self.remove_children([view for view in views if view.question.permission_id not in wanted])
        shown = {view.question.permission_id for view in views}
        for question in asked:
            if question.permission_id not in shown:
                await self.mount(Asked(question))
        self.display = bool(asked)


class Queue(OptionList):
    """What waits, in order. It is never focused by itself."""

    BINDINGS = [
        ("e,enter", "act('edit')", "Edit"),
        ("w,delete", "act('withdraw')", "Withdraw"),
        ("shift+up,K", "act('up')", "Earlier"),
        ("shift+down,J", "act('down')", "Later"),
    ]

    class Act(Message):
        """A person wants something done with a message that waits."""

        def __init__(self, what: str, message_id: str) -> None:
            super().__init__()
            self.what, self.message_id = what, message_id

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, markup=False, compact=True)
        self._drawn: list[tuple[str, str | None, str]] = []

    def action_act(self, what: str) -> None:
        """Tell what is wanted with the highlighted message."""
        if self.highlighted is not None and self.highlighted < len(self._drawn):
            self.post_message(self.Act(what, self._drawn[self.highlighted][0]))

    def sync(self, waiting: Sequence[Waiting]) -> None:
        """Show these; the highlight stays with its message."""
        drawn = [(one.message_id, one.text, one.when_busy) for one in waiting]
        if drawn == self._drawn:
            return
        kept = self._drawn[self.highlighted][0] if self.highlighted is not None and self._drawn else None
        self._drawn = drawn
        self.clear_options()
        self.add_options([Option(_line(place, one), id=one.message_id) for place, one in enumerate(waiting, 1)])
        places = [place for place, (message_id, _, _) in enumerate(drawn) if message_id == kept]
        self.highlighted = places[0] if places else (0 if drawn else None)
        self.border_title = f"waiting: {len(drawn)}"
        self.display = bool(drawn)


def _line(place: int, one: Waiting) -> Content:
    sender = f"{one.sender}: " if one.sender else ""
    return row(f"{place}. [{one.when_busy}] {sender}{one.text if one.text is not None else one.message_id}")

"""Where a person writes."""

from textual import events
from textual.message import Message
from textual.widgets import TextArea

from antiphon.terminal.sight import source

_NEW_LINE = frozenset({"ctrl+j", "shift+enter", "alt+enter"})


class Prompt(TextArea):
    """A box of several lines. Enter sends; Ctrl+J, or Shift+Enter where the terminal tells it apart, begins a line.

    What is pasted is text, also its line ends: nothing that is pasted sends itself, and control characters in it
    become visible.
    """

    class Sent(Message):
        """The person wants this text sent."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id, soft_wrap=True, tab_behavior="focus", compact=True, highlight_cursor_line=False)

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self.post_message(self.Sent(self.text))
        elif event.key in _NEW_LINE:
            event.stop()
            event.prevent_default()
            self.insert("\n")

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.insert(source(event.text.replace("\r\n", "\n").replace("\r", "\n")))

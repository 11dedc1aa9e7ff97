"""The view of one session: the conversation, what is asked, what waits, and a prompt."""

from collections.abc import Awaitable, Callable
from typing import Any, cast

from textual.app import ComposeResult
from textual.binding import Binding
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widget import MountError
from textual.widgets import Footer, Static

from antiphon.cli.exits import told
from antiphon.cli.table import WHEN_BUSY
from antiphon.client import AsyncClient, ClientError
from antiphon.client.keys import new_key
from antiphon.terminal.attention import finished
from antiphon.terminal.panels import Decided, Questions, Queue
from antiphon.terminal.prompt import Prompt
from antiphon.terminal.reading import SessionReader
from antiphon.terminal.seen import Seen
from antiphon.terminal.sight import row
from antiphon.terminal.transcript import Transcript

FRAME_S = 0.1


class SessionScreen(Screen[None]):
    """Follows a session, and writes to it."""

    BINDINGS = [
        Binding("escape", "cancel", "Cancel the turn", priority=True),
        Binding("f2,ctrl+t", "mode", "While a turn runs", priority=True),
        Binding("f3", "earlier", "Earlier", priority=True),
        Binding("f8", "decide('allow')", "Allow", priority=True),
        Binding("f9", "decide('deny')", "Deny", priority=True),
        Binding("ctrl+b", "leave", "Board", priority=True),
    ]

    def __init__(self, client: AsyncClient, ref: str, seen: Seen, *, mode: str | None = None) -> None:
        super().__init__()
        self._client, self._seen = client, seen
        self._reader = SessionReader(client, ref, self._note)
        self._ref, self._mode = ref, mode
        self._editing: str | None = None
        self._changed, self._drawing, self._left = True, False, False
        self._unsent: tuple[str, str] | None = None
        """The last text that is not known to have been taken, and its key: sent again it is the same message."""

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield Static("", id="head", markup=False)
        yield Static("", id="trouble", markup=False)
        yield Transcript(id="transcript")
        yield Questions(id="questions")
        yield Queue(id="queue")
        yield Prompt(id="prompt")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to read."""
        self.query_one(Queue).display = False
        self.query_one(Prompt).focus()
        self.run_worker(self._reader.run(), name="reader")
        self.run_worker(self._reader.stay_fresh(), name="state")
        self.set_interval(FRAME_S, self._frame)

    def _note(self) -> None:
        self._changed = True

    def _frame(self) -> None:
        """Have what has come since the last frame drawn, by the screen's own task.

        Never by the timer's: that one is cancelled when the view is left, and who is cancelled while it waits for
        widgets to be removed cancels the tasks of those widgets, which in Textual ends the app by `CancelledError`.
        """
        if self._changed and not self._drawing:
            self._changed, self._drawing = False, True
            self.call_next(self._draw)

    @property
    def _stays(self) -> bool:
        """Whether the view is not being left: from then on nothing can be added to it, and what is in it goes."""
        runs = self.app.is_running  # pyright: ignore[reportUnknownMemberType]
        return runs and self.is_attached and not self._left

    async def _draw(self) -> None:
        """Show what has come since the last time, however much that is."""
        try:
            if self._stays:
                await self._draw_all()
        except (MountError, NoMatches):
            if self._stays:
                raise
        finally:
            self._drawing = False

    async def _draw_all(self) -> None:
        reader = self._reader
        trouble = self.query_one("#trouble", Static)
        trouble.update(row(reader.trouble or ""))
        trouble.display = reader.trouble is not None
        self._draw_head()
        self.query_one(Queue).sync(reader.story.waiting)
        await self.query_one(Questions).sync(reader.story.asked)
        if await self.query_one(Transcript).sync(reader.story, whole=reader.whole):
            self.call_after_refresh(self._note)
        self._draw_prompt()

    def _draw_head(self) -> None:
        session = self._reader.session
        words = [self._ref]
        if session:
            paused = "queue paused" if session.paused_at else ""
            words = [session.ref, session.title or "", session.status, paused, session.agent, session.model or ""]
            self._seen.mark(session.id, finished(session))
        self.query_one("#head", Static).update(row("  ".join(filter(None, words)), "bold"))

    def _draw_prompt(self) -> None:
        session, prompt = self._reader.session, self.query_one(Prompt)
        own = session.when_busy if session else None
        mode = self._mode or f"as the session has it ({own or 'the default of the host'})"
        title = (
            "editing a message that waits; Esc leaves it as it was" if self._editing else f"while a turn runs: {mode}"
        )
        prompt.border_title = row(title).markup
        prompt.border_subtitle = "Enter sends, Ctrl+J begins a line"

    # What a person does

    async def on_prompt_sent(self, event: Prompt.Sent) -> None:
        """Send, or keep what was edited."""
        if not event.text.strip():
            return
        self._empty()
        if self._editing:
            editing, self._editing = self._editing, None
            self._try(lambda: self._said(event.text, self._client.message_edit(editing, text=event.text)))
        else:
            self._try(lambda: self._said(event.text, self._send(event.text)))

    async def _send(self, text: str) -> None:
        ref = self._reader.session.id if self._reader.session else self._ref
        key = self._unsent[1] if self._unsent and self._unsent[0] == text else new_key()
        self._unsent = text, key
        mode = cast("Any", self._mode)
        await self._client.send(ref, text, when_busy=mode, wait_s=0, idempotency_key=key)
        self._unsent = None

    async def _said(self, text: str, deed: Awaitable[object]) -> None:
        """Do what is to be done with a text. What the host did not take stands in the prompt again."""
        try:
            await deed
        except ClientError:
            prompt = self.query_one(Prompt)
            prompt.load_text(f"{text}\n{prompt.text}" if prompt.text else text)
            raise

    def on_queue_act(self, event: Queue.Act) -> None:
        """Edit, withdraw or move a message that waits."""
        order = [one.message_id for one in self._reader.story.waiting]
        if event.message_id not in order:
            return
        place = order.index(event.message_id)
        if event.what == "withdraw":
            self._try(lambda: self._client.message_withdraw(event.message_id))
        elif event.what == "edit":
            self._edit(event.message_id)
        else:
            other = place + (-1 if event.what == "up" else 1)
            if 0 <= other < len(order):
                order[place], order[other] = order[other], order[place]
                self._try(lambda: self._client.reorder(self._ref, order))

    def _edit(self, message_id: str) -> None:
        one = self._reader.story.found(message_id)
        if one is None or one.text is None:
            self.notify("Its text is further back than what is shown: press F3 first.", markup=False)
            return
        self._editing = message_id
        prompt = self.query_one(Prompt)
        prompt.load_text(one.text)
        prompt.focus()
        self._draw_prompt()

    def on_decided(self, event: Decided) -> None:
        """Answer a question."""
        decision = cast("Any", event.decision)
        self._try(lambda: self._client.permission_answer(event.permission_id, decision, option_id=event.option_id))

    def action_decide(self, decision: str) -> None:
        """Answer the first question."""
        if asked := self._reader.story.asked:
            self.post_message(Decided(asked[0].permission_id, decision))

    def action_cancel(self) -> None:
        """Leave the editing, else cancel the running turn."""
        running = self._reader.story.running
        if self._editing:
            self._editing = None
            self._empty()
            self._draw_prompt()
        elif running:
            self._try(lambda: self._client.turn_cancel(running.turn_id))
        else:
            self.notify("Nothing runs. Ctrl+B leads to the board, Ctrl+Q leaves.", markup=False)

    def action_mode(self) -> None:
        """Choose what the next message does while a turn runs."""
        modes = (None, *WHEN_BUSY)
        self._mode = modes[(modes.index(self._mode) + 1) % len(modes)]
        self._draw_prompt()

    def action_earlier(self) -> None:
        """Show more of the past."""
        transcript = self.query_one(Transcript)
        transcript.want_more()
        self.run_worker(self._reader.earlier(transcript.wanted))

    def action_leave(self) -> None:
        """Go to the board; whatever runs goes on."""
        self._seen.keep()
        self._left = True
        self.dismiss()

    def _empty(self) -> None:
        self.query_one(Prompt).load_text("")

    def _try(self, deed: Callable[[], Awaitable[object]]) -> None:
        """Do something at the host; what goes wrong is told where the person looks."""
        self.run_worker(self._tried(deed))

    async def _tried(self, deed: Callable[[], Awaitable[object]]) -> None:
        try:
            await deed()
        except ClientError as error:
            self.notify(row(told(error)).plain, severity="error", markup=False)
        self._reader.stir()

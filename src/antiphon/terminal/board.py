"""The board: all sessions, those first that need somebody."""

from collections.abc import Callable
from typing import cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.coordinate import Coordinate
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from antiphon.cli.listing import ago, cut
from antiphon.client import AsyncClient, Session
from antiphon.terminal.attention import Wanted, finished, is_unread
from antiphon.terminal.reading import Overview
from antiphon.terminal.seen import Seen
from antiphon.terminal.sight import in_a_row, row

FRAME_S, CLOCK_S = 0.2, 20.0
CELL_MAX = 60
HINT = "/ filters: words, agent:NAME, status:WORD, label:NAME=VALUE"
HEADS = ("", "STATUS", "SESSION", "AGENT", "WAITING", "ACTIVE", "WHAT")
_STYLES = {
    "asking": "bold yellow",
    "stalled": "bold yellow",
    "errored": "bold red",
    "running": "cyan",
    "starting": "cyan",
}
Row = tuple[Text, ...]


class BoardScreen(Screen[None]):
    """Shows all sessions; Enter opens one."""

    BINDINGS = [
        Binding("slash", "filter", "Filter"),
        Binding("escape", "unfilter", "Show all", priority=True),
        Binding("m", "mark_all", "Mark all as seen"),
        Binding("q", "app.quit", show=False),
    ]

    def __init__(self, client: AsyncClient, seen: Seen, choose: Callable[[str], None], *, wanted: str) -> None:
        """Show the sessions that the filter line `wanted` asks for; `choose` is called with the id of one to open."""
        super().__init__()
        self._choose = choose
        self._overview = Overview(client, self._note)
        self._seen = seen
        self._line = wanted
        self._changed = True
        self._rows: dict[str, Row] = {}
        self._order: list[str] = []
        self._first = True

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield Static("", id="head", markup=False)
        yield Static("", id="trouble", markup=False)
        yield Input(self._line, placeholder=HINT, id="filter", compact=True)
        yield DataTable[Text](id="sessions", cursor_type="row", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        """Begin to read."""
        table = self._table
        for head in HEADS:
            table.add_column(head, key=head or "unread")
        table.focus()
        self.run_worker(self._overview.run(), name="overview")
        self.set_interval(FRAME_S, self._draw)
        self.set_interval(CLOCK_S, self._note)

    def on_screen_resume(self) -> None:
        """Come back from a session."""
        self._changed = True

    @property
    def _table(self) -> DataTable[Text]:
        return cast("DataTable[Text]", self.query_one("#sessions"))

    def _note(self) -> None:
        self._changed = True

    def _draw(self) -> None:
        if not self._changed or not self.is_current:
            return
        self._changed = False
        trouble = self.query_one("#trouble", Static)
        trouble.update(row(self._overview.trouble or ""))
        trouble.display = self._overview.trouble is not None
        if self._overview.trouble is None:
            self._take_as_seen()
        sessions = self._overview.in_order()
        wanted = Wanted.parse(self._line)
        shown = [session for session in sessions if wanted.holds(session)]
        self._draw_head(sessions, len(shown))
        self._draw_rows(shown)

    def _take_as_seen(self) -> None:
        """Who looks for the first time has missed nothing yet."""
        if self._first and self._seen.first_time:
            self._mark_all()
        self._first = False

    def _mark_all(self) -> None:
        for session in self._overview.sessions.values():
            self._seen.mark(session.id, finished(session))

    def _draw_head(self, sessions: list[Session], shown: int) -> None:
        counts = {status: sum(each.status == status for each in sessions) for status in _STYLES}
        unread = sum(is_unread(each, self._seen.marks) for each in sessions)
        words = [f"{count} {status}" for status, count in counts.items() if count]
        words += [f"{unread} unread"] if unread else []
        total = f"{len(sessions)} sessions" if shown == len(sessions) else f"{shown} of {len(sessions)} sessions"
        self.query_one("#head", Static).update(row("   ".join([f"antiphon  {total}", *words]), "bold"))

    def _draw_rows(self, sessions: list[Session]) -> None:
        """Change the cells that differ; when the order differs, lay all rows out anew around the chosen session."""
        table = self._table
        rows = {session.id: self._row(session) for session in sessions}
        if list(rows) == self._order:
            for place, (session_id, cells) in enumerate(rows.items()):
                for column, (cell, before) in enumerate(zip(cells, self._rows[session_id], strict=True)):
                    if cell != before:
                        table.update_cell_at(Coordinate(place, column), cell, update_width=True)
        else:
            chosen, top = self._chosen(), table.scroll_y
            table.clear()
            for session_id, cells in rows.items():
                table.add_row(*cells, key=session_id)
            if chosen in rows:
                table.move_cursor(row=list(rows).index(chosen), animate=False, scroll=False)
                table.scroll_to(y=top, animate=False)
        self._order, self._rows = list(rows), rows

    def _row(self, session: Session) -> Row:
        """A session's cells. `Text` is not markup, whatever is in it."""
        question = self._overview.questions.get(session.id) if session.status == "asking" else None
        unread = is_unread(session, self._seen.marks)
        what = f"asks: {question}" if question else session.title or ""
        labels = "  ".join(f"{name}={value}" for name, value in (session.labels or {}).items())
        what = f"{what}  {labels}".strip()
        paused = "paused" if session.paused_at else ""
        waiting = " ".join(filter(None, (str(session.queued or ""), paused)))
        cells = (session.ref, session.agent, waiting, ago(session.active_at), what)
        status = Text(session.status, _STYLES.get(session.status, ""))
        return (
            Text("●" if unread else " "),
            status,
            *[Text(cut(in_a_row(cell), CELL_MAX), no_wrap=True) for cell in cells],
        )

    def _chosen(self) -> str | None:
        place = self._table.cursor_row
        return self._order[place] if 0 <= place < len(self._order) else None

    # What a person does

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the session."""
        event.stop()
        if event.row_key.value:
            self._choose(event.row_key.value)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show what the line asks for."""
        self._line = event.value
        self._changed = True

    def on_input_submitted(self) -> None:
        """Go to the sessions."""
        self._table.focus()

    def action_filter(self) -> None:
        """Write a filter."""
        self.query_one(Input).focus()

    def action_unfilter(self) -> None:
        """Show all sessions."""
        self.query_one(Input).value = ""
        self._table.focus()

    def action_mark_all(self) -> None:
        """Take everything as seen."""
        self._mark_all()
        self._seen.keep()
        self._changed = True

"""The conversation on the screen: what was said, with Markdown; what tools did, folded; text as it streams."""

import json
from typing import Any

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Markdown, Static

from antiphon.cli.listing import clock, lasting
from antiphon.client.documents import Json
from antiphon.terminal.sight import markdown_parser, plain, row, source
from antiphon.terminal.story import Item, Note, Part, Run, Said, Story

FIRST, SHOWN, MORE, GONE_MAX = 10, 30, 60, 100
"""How many items are drawn at first, so that the newest stand there at once; in the end; more with each wish; kept."""
SAYS = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
FOLDED_CHARACTERS_MAX = 20_000
_MARKS = {"completed": "✓", "failed": "✗", "aborted": "✗", None: "…"}


class Answer(Markdown):
    """A text of an agent. Links lead nowhere by themselves: where one leads is told when it is clicked."""

    def __init__(self, part: Part) -> None:
        self._told = part.text
        super().__init__(source(self._told), parser_factory=markdown_parser, open_links=False)
        self._part = part
        self._settled = False

    async def sync(self, *, ended: bool) -> None:
        """Show what was said since. At the end all of it is laid out anew if the pieces made another text of it."""
        text = self._part.text
        if len(text) > len(self._told):
            new, self._told = text[len(self._told) :], text
            if not ended:
                await self.append(source(new))
                return
            self._settled = False
        if ended and not self._settled:
            self._settled = True
            if self.source != source(text):
                await self.update(source(text))

    def on_markdown_link_clicked(self, event: Markdown.LinkClicked) -> None:
        """Show the address instead of opening it."""
        event.prevent_default()
        event.stop()
        self.notify(source(event.href), title="The link leads to", markup=False)


class Fold(Static, can_focus=True):
    """A thought or a tool call: a line, and more when it is opened by Enter or a click."""

    BINDINGS = [("enter,space", "fold", "Open or close")]

    def __init__(self, part: Part) -> None:
        super().__init__(markup=False)
        self._part, self._open = part, False
        self._drawn: tuple[object, ...] = ()

    def on_mount(self) -> None:
        """Draw it."""
        self.draw()

    def action_fold(self) -> None:
        """Open or close it."""
        self._open = not self._open
        self.draw()

    def on_click(self) -> None:
        """Open or close it."""
        self.action_fold()

    def draw(self) -> None:
        """Draw it if it has changed."""
        part = self._part
        drawn = (self._open, part.outcome, len(part.text), part.output is None)
        if drawn == self._drawn:
            return
        self._drawn = drawn
        arrow = "▾" if self._open else "▸"
        if part.kind == "thought":
            head = f"{arrow} thought, {len(part.text)} characters"
            lines = [row(head, "dim")] + ([_cut(part.text)] if self._open else [])
        else:
            head = f"{arrow} {part.name} {_MARKS.get(part.outcome, '?')} {part.outcome or 'running'}"
            lines = [row(head + ("" if self._open else f"  {_brief(part.input)}"))]
            if self._open:
                lines += [_cut(_shown(each)) for each in (part.input, part.output) if each is not None]
        self.update(Content("\n").join(lines))


class RunView(Vertical):
    """A turn: its parts in their order, and how it stands."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run
        self._views: list[Widget] = []
        self._foot = Static("", markup=False, classes="foot")

    def compose(self) -> ComposeResult:
        """Begin with the foot; parts are mounted before it as they come."""
        if self.run.cut:
            yield Static("… the beginning of this turn is further back", markup=False, classes="foot")
        yield self._foot

    async def sync(self) -> None:
        """Show what is new."""
        run = self.run
        for part in run.parts[len(self._views) :]:
            view = _view_of(part)
            self._views.append(view)
            await self.mount(view, before=self._foot)
        for number, view in enumerate(self._views):
            if isinstance(view, Answer):
                await view.sync(ended=run.ended or number < len(self._views) - 1)
            elif isinstance(view, Fold):
                view.draw()
        self._foot.update(_foot(run))


class Transcript(VerticalScroll):
    """A story, as much of it as is wanted. It stays at its end unless the person has scrolled up."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._story: Story | None = None
        self._views: list[tuple[Item, Widget]] = []
        self.wanted = SHOWN
        self._head = Static("", markup=False, classes="foot")

    def compose(self) -> ComposeResult:
        """Begin with the line that tells of what is further back."""
        yield self._head

    def on_mount(self) -> None:
        """Stay at the end."""
        self.anchor()

    def want_more(self) -> None:
        """Show more of the past."""
        self.wanted += MORE

    async def sync(self, story: Story, *, whole: bool) -> bool:
        """Show a story as it is now, of the first one the newest at first; whether there is more of it to be drawn."""
        begins = self._story is None and bool(story.items)
        if story is not self._story:
            self._story = story if story.items else None
            await self.remove_children([view for _, view in self._views])
            self._views = []
        items = story.items[-(FIRST if begins else self.wanted) :]
        await self._drop(items)
        await self._add(items)
        for _, view in self._views:
            if isinstance(view, RunView):
                await view.sync()
        further = not whole or len(story.items) > len(items)
        self._head.update("F3 shows what was before" if further else "The session begins here")
        return len(items) < min(self.wanted, len(story.items))

    async def _add(self, items: list[Item]) -> None:
        """Show what is not shown: further back what was before the first, at the end what is new."""
        shown = {id(item) for item, _ in self._views}
        first = next((place for place, item in enumerate(items) if id(item) in shown), 0)
        fresh = [(item, _view_of_item(item)) for item in items if id(item) not in shown]
        before, behind = fresh[:first], fresh[first:]
        if before:
            await self.mount_all([view for _, view in before], after=self._head)
        if behind:
            await self.mount_all([view for _, view in behind])
        self._views = [*before, *self._views, *behind]

    async def _drop(self, items: list[Item]) -> None:
        kept = {id(item) for item in items}
        gone = [view for item, view in self._views if id(item) not in kept]
        reads_back = self.scroll_offset.y < self.max_scroll_y - 1
        if gone and (not reads_back or len(gone) > GONE_MAX):  # what is being read is not taken away
            await self.remove_children(gone)
            self._views = [(item, view) for item, view in self._views if id(item) in kept]


def _view_of_item(item: Item) -> Widget:
    match item:
        case Run():
            return RunView(item)
        case Said():
            return _said(item.text, item.sender)
        case Note():
            return Static(row(f"{clock(item.at)[:8]}  {item.text}", "dim"), markup=False, classes="note")


def _said(text: str, sender: str | None) -> Widget:
    """A message, under the name of who sent it where that is known."""
    named = [row(f"from {sender}", "dim")] if sender else []
    return Static(Content("\n").join([*named, plain(f"{SAYS} {text}")]), markup=False, classes="said")


def _view_of(part: Part) -> Widget:
    match part.kind:
        case "text":
            return Answer(part)
        case "thought" | "tool":
            return Fold(part)
        case "steer":
            return _said(part.text, part.sender)
        case "note":
            return Static(row(part.text, "dim"), markup=False, classes="note")


def _foot(run: Run) -> Content:
    """How a turn stands, in words; an error says what happened."""
    if not run.ended:
        return row("cancelling …" if run.cancelling else "running …", "dim")
    words = [] if run.state == "completed" else [run.state]
    if run.error:
        words.append(f"{run.error.get('detail') or 'no reason was given'} ({run.error.get('code')})")
    facts = [clock(run.ended_at)[:8], lasting(run.at, run.ended_at), usage_words(run.usage)]
    told = Content("  ").join([row(each, "dim") for each in facts if each])
    return Content("\n").join([*[row(": ".join(words), "bold")] * bool(words), told])


def usage_words(usage: Json | None) -> str:
    """What a turn cost, in words; nothing where nothing is known."""
    if not usage:
        return ""
    cost = usage.get("cost_usd") or 0
    words = f"{usage.get('input_tokens') or 0:,} in, {usage.get('output_tokens') or 0:,} out"
    return f"{words}, ${cost:.4f}" if cost else words


def _brief(value: Any) -> str:
    return "" if value is None else _shown(value)[:120]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _cut(text: str) -> Content:
    """A long text's beginning; the whole of it is in the journal."""
    if len(text) <= FOLDED_CHARACTERS_MAX:
        return plain(text)
    return plain(f"{text[:FOLDED_CHARACTERS_MAX]}\n… {len(text) - FOLDED_CHARACTERS_MAX:,} characters more")

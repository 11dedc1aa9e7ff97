"""The session's view, driven by keys against a real host with the echo agent."""

import asyncio

import pytest
from textual.events import Paste

from antiphon.client import Client
from antiphon.terminal import reading
from antiphon.terminal.panels import Choice, Queue
from antiphon.terminal.prompt import Prompt
from antiphon.terminal.story import Run
from antiphon.terminal.transcript import Fold, Transcript
from clientlab.running import Installation
from integration.terminal.conftest import Open

EVIL = (
    "<script>x</script> [red]no[/red] [@click=app.quit]no[/] "
    "\x1b[31m \x1b]8;;http://evil\x07 \x9b31m \u202eevil &#x202e;"
)


def start(client: Client, host: Installation, key: str) -> str:
    """A session of the echo agent."""
    return client.session_start("echo", key, cwd=str(host.work)).id


def accepted(client: Client, key: str) -> list[dict[str, object]]:
    """What was accepted, in order."""
    return [event.data for event in client.journal(key) if event.type == "message.accepted"]


async def test_what_is_written_is_sent_and_answered(host: Installation, client: Client, opened: Open) -> None:
    start(client, host, "said")
    async with opened(host, ref="said") as view:
        await view.shows("said", "The session begins here")
        await view.type("hello")
        await view.shows("hello", "echo: hello", " in, ")
        assert view.app.screen.query_one(Prompt).text == ""


async def test_a_view_opened_in_the_midst_of_a_turn_shows_its_text_from_its_start(
    host: Installation, client: Client, opened: Open
) -> None:
    start(client, host, "midst")
    client.send("midst", "[[stream 4 every 1]] [[hold midst-go]] the end", wait_s=0)
    async with opened(host, ref="midst") as view:
        await view.shows("1 2 3 4", "running …")
        host.release("midst-go")
        await view.shows("1 2 3 4 echo: the end")
        assert view.text.count("1 2 3 4") == 1


async def test_a_message_written_while_a_turn_runs_follows_the_mode_that_was_chosen(
    host: Installation, client: Client, opened: Open
) -> None:
    start(client, host, "mode")
    client.send("mode", "[[hold mode-go]]", wait_s=0)
    async with opened(host, ref="mode") as view:
        await view.shows("running …", "as the session has it")
        await view.type("first")
        await view.pilot.press("f2", "f2", "f2")
        await view.shows("while a turn runs: steer")
        await view.type("second")
        await view.until(lambda: len(accepted(client, "mode")) == 3, "three messages")
        host.release("mode-go")
        await view.shows("echo: first", "echo: second")
    assert [data["when_busy"] for data in accepted(client, "mode")] == ["queue", "queue", "steer"]


async def test_escape_cancels_the_turn_and_leaves_one_alone_that_waits(
    host: Installation, client: Client, opened: Open
) -> None:
    start(client, host, "escape")
    running = client.send("escape", "[[hold never]]", wait_s=0)
    after = client.send("escape", "after", wait_s=0)
    async with opened(host, ref="escape") as view:
        await view.shows("running …", "waiting: 1")
        await view.pilot.press("escape")
        await view.shows("cancelled", "echo: after")
        await view.until(lambda: view.session._reader.story.running is None, "end of the turn")
        await view.pilot.press("escape")
        await view.shows("Nothing runs")
    assert client.message(running.id).state == "cancelled"
    assert client.message(after.id).state == "answered"


async def test_what_waits_is_edited_moved_and_withdrawn(host: Installation, client: Client, opened: Open) -> None:
    start(client, host, "queue")
    client.send("queue", "[[hold queue-go]]", wait_s=0)
    first, second, third = [client.send("queue", text, wait_s=0).id for text in ("one", "two", "three")]
    async with opened(host, ref="queue") as view:
        await view.shows("waiting: 3", "1. [queue] one", "3. [queue] three")
        queue = view.app.screen.query_one(Queue)
        queue.focus()
        await view.pilot.press("J")
        await view.shows("1. [queue] two", "2. [queue] one")
        await view.pilot.press("w")
        await view.shows("waiting: 2", "1. [queue] two", "2. [queue] three")
        queue.highlighted = 0
        await view.pilot.press("e")
        await view.shows("editing a message that waits")
        await view.type("!")
        await view.until(lambda: "!" in str(accepted_texts(client, "queue", second)), "the edit")
        host.release("queue-go")
        await view.shows("echo: three")
    assert client.message(first).state == "withdrawn"
    assert "!" in (client.message(second).reply or "")
    assert client.message(third).state == "answered"


def accepted_texts(client: Client, key: str, message_id: str) -> list[str]:
    """The texts that a message has had."""
    return [event.data.get("text", "") for event in client.journal(key) if event.message_id == message_id]


async def test_who_sent_a_message_stands_beside_it_where_somebody_is_named(
    host: Installation, client: Client, opened: Open
) -> None:
    start(client, host, "senders")
    client.send("senders", "from the bot", sender="[b]ana\x1b[31m")
    client.send("senders", "from here")
    client.send("senders", "[[hold senders-go]]", wait_s=0)
    client.send("senders", "into it", wait_s=0, sender="ben", when_busy="steer")
    client.send("senders", "it waits", wait_s=0, sender="cy")
    async with opened(host, ref="senders") as view:
        await view.shows("from [b]ana\\x1b[31m\n \u203a from the bot", "1. [queue] cy: it waits")
        await view.shows("from ben\n \u203a into it")
        assert "local" not in view.text
        host.release("senders-go")
        await view.shows("from cy\n \u203a it waits", "echo: it waits")


async def test_the_header_says_that_a_queue_is_paused(host: Installation, client: Client, opened: Open) -> None:
    start(client, host, "paused")
    async with opened(host, ref="paused") as view:
        await view.shows("The session begins here")
        assert "queue paused" not in view.text
        client.queue_pause("paused")
        client.send("paused", "it waits", wait_s=0)
        await view.shows("queue paused", "waiting: 1")
        await view.pilot.press("ctrl+b")
        await view.shows("1 paused")
        client.queue_continue("paused")
        await view.until(lambda: "1 paused" not in view.text, "the end of the pause on the board")
    async with opened(host, ref="paused") as view:
        await view.shows("echo: it waits")
        assert "queue paused" not in view.text


async def test_leaving_the_editing_leaves_the_message_as_it_was(
    host: Installation, client: Client, opened: Open
) -> None:
    start(client, host, "unedited")
    client.send("unedited", "[[hold unedited-go]]", wait_s=0)
    waiting = client.send("unedited", "as it was", wait_s=0)
    async with opened(host, ref="unedited") as view:
        await view.shows("waiting: 1")
        view.app.screen.query_one(Queue).focus()
        await view.pilot.press("e", "x", "escape")
        await view.until(lambda: view.app.screen.query_one(Prompt).text == "", "empty prompt")
        assert client.turn(str(client.session("unedited").turn_id)).state == "running"
        host.release("unedited-go")
        await view.shows("echo: as it was")
    assert client.message(waiting.id).reply == "echo: as it was"


async def test_what_the_agent_asks_is_answered_in_place(host: Installation, client: Client, opened: Open) -> None:
    start(client, host, "asks")
    first = client.send("asks", "[[ask May I?]] a", wait_s=0)
    async with opened(host, ref="asks") as view:
        await view.until(lambda: len(view.app.screen.query(Choice)) == 2, "two answers")
        await view.shows("May I?", "Allow", "Deny")
        await view.pilot.press("f8")
        await view.until(lambda: client.message(first.id).ended, "end")
        await view.until(lambda: not view.app.screen.query(Choice), "no question left")
        second = client.send("asks", "[[ask And this?]] b", wait_s=0)
        await view.until(lambda: len(view.app.screen.query(Choice)) == 2, "two answers")
        deny = [choice for choice in view.app.screen.query(Choice) if "Deny" in str(choice.label)]
        deny[0].focus()
        await view.pilot.press("enter")
        await view.until(lambda: client.message(second.id).ended, "end")
        await view.until(lambda: not view.app.screen.query(Choice), "no question left")
    answers = {asked.question: asked.state for asked in client.permissions(state=None, ref="asks")}
    assert answers == {"May I?": "allowed", "And this?": "denied"}


@pytest.mark.parametrize("how", ["closed", "exit", "leave"])
async def test_a_view_is_left_in_good_order_while_a_question_is_being_taken_away(
    how: str, host: Installation, client: Client, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    going, gone = asyncio.Event(), asyncio.Event()

    async def held(_choice: Choice, _event: object) -> None:
        going.set()
        await gone.wait()

    monkeypatch.setattr(Choice, "on_unmount", held, raising=False)
    key = f"left-{how}"
    start(client, host, key)
    asking = client.send(key, "[[ask May I?]] a", wait_s=0)
    async with opened(host, ref=key) as view:
        await view.until(lambda: len(view.app.screen.query(Choice)) == 2, "two answers")
        view.session.action_decide("allow")
        async with asyncio.timeout(30):
            await going.wait()
        reader = view.session._reader
        await view.until(lambda: any(run.ended for run in reader.story.items if isinstance(run, Run)), "more to draw")
        if how == "exit":
            view.app.exit()
        if how == "leave":
            view.session.action_leave()
        asyncio.get_running_loop().call_later(0.2, gone.set)
        if how == "leave":
            await view.shows("antiphon  ", key)
    assert view.app.return_code == (0 if how == "exit" else None)
    assert client.wait(asking.id, 30).state == "answered"


async def test_what_is_pasted_is_text_and_sends_nothing(host: Installation, client: Client, opened: Open) -> None:
    start(client, host, "paste")
    async with opened(host, ref="paste") as view:
        await view.shows("The session begins here")
        prompt = view.app.screen.query_one(Prompt)
        prompt.post_message(Paste("first\r\nsecond \x1b[31m 漢字 👩\u200d👧\r"))
        await view.until(lambda: prompt.text == "first\nsecond \\x1b[31m 漢字 👩\u200d👧\n", "the pasted text")
        assert accepted(client, "paste") == []
        await view.pilot.press("ctrl+j", "x", "enter")
        await view.until(lambda: accepted(client, "paste"), "the message")
    assert accepted(client, "paste")[0]["text"] == "first\nsecond \\x1b[31m 漢字 👩\u200d👧\n\nx"


async def test_what_others_wrote_is_shown_and_never_run(host: Installation, client: Client, opened: Open) -> None:
    client.session_start("echo", "evil", cwd=str(host.work), title=EVIL.replace("\n", " "))
    client.send("evil", EVIL)
    async with opened(host, ref="evil") as view:
        await view.shows(
            "echo: <script>", "[@click=app.quit]no[/]", "\\x1b[31m", "\\x1b]8;;http://evil\\x07", "\\x9b31m"
        )
        await view.shows("\\u202eevil")
        assert not {"\x1b", "\x9b", "\u202e", "\x07"} & set(view.text)
        await view.pilot.press("ctrl+b")
        await view.shows("[red]no[/red]")
        assert not {"\x1b", "\x9b", "\u202e", "\x07"} & set(view.text)


async def test_tool_calls_are_folded_and_open(host: Installation, client: Client, opened: Open) -> None:
    start(client, host, "tools")
    client.send("tools", "[[tool [b]Read]] done")
    async with opened(host, ref="tools") as view:
        await view.shows("▸ [b]Read ✓ completed")
        view.app.screen.query_one(Fold).focus()
        await view.pilot.press("enter")
        await view.shows("▾ [b]Read")


async def test_a_turn_that_fails_says_why(host: Installation, client: Client, opened: Open) -> None:
    start(client, host, "fails")
    client.send("fails", "[[fail The [bold]disk is full]]")
    async with opened(host, ref="fails") as view:
        await view.shows("failed: ", "The [bold]disk is full")
        client.session_stop("fails")
        await view.shows("Stopped.")
        await view.type("refused")
        await view.shows("antiphon session resume")
        assert view.app.screen.query_one(Prompt).text == "refused", "what could not be sent is lost"


async def test_a_small_or_a_changed_terminal_is_drawn_on(host: Installation, client: Client, opened: Open) -> None:
    start(client, host, "small")
    client.send("small", "漢字 😀 " * 30)
    async with opened(host, ref="small", size=(30, 12)) as view:
        await view.shows("漢字 😀 漢字 😀 漢字 😀\n", " in, ")
        await view.pilot.resize_terminal(140, 50)
        await view.shows("The session begins here", "漢字 😀 漢字 😀 漢字 😀 漢字 😀")
        await view.pilot.resize_terminal(12, 6)
        await view.pilot.resize_terminal(80, 24)
        await view.type("still")
        await view.shows("echo: still")


async def test_a_long_story_shows_its_end_and_more_when_asked(
    host: Installation, client: Client, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "WINDOW", 50)
    start(client, host, "long")
    for number in range(30):
        client.send("long", f"number {number}.")
    async with opened(host, ref="long") as view:
        await view.shows("echo: number 29.")
        await view.until(lambda: len(view.app.screen.query("RunView")) >= 10, "turns")
        assert len(view.app.screen.query("RunView")) < 20
        await view.pilot.press("f3", "f3", "f3")
        await view.until(lambda: len(view.app.screen.query("RunView")) == 30, "all turns")
        runs = [item for item in view.session._reader.story.items if isinstance(item, Run)]
        assert [run.parts[0].text for run in runs] == [f"echo: number {number}." for number in range(30)]


async def test_who_reads_back_is_left_where_they_read_and_nothing_is_taken_away(
    host: Installation, client: Client, opened: Open
) -> None:
    start(client, host, "back")
    for number in range(14):
        client.send("back", f"number {number}.")
    async with opened(host, ref="back", size=(80, 20)) as view:
        await view.shows("echo: number 13.")
        transcript = view.app.screen.query_one(Transcript)
        await view.until(lambda: transcript.max_scroll_y > 40, "a long transcript")
        transcript.scroll_to(y=10, animate=False)
        await view.until(lambda: transcript.scroll_offset.y == 10, "the place")
        before = transcript.children[1]
        for number in range(14, 18):
            client.send("back", f"number {number}.")
        runs = view.session._reader.story.items
        await view.until(lambda: sum(isinstance(item, Run) and item.ended for item in runs) == 18, "four turns more")
        await view.until(lambda: len(transcript.query("RunView")) == 18, "four turns more")
        assert transcript.scroll_offset.y == 10
        assert transcript.children[1] is before
        transcript.scroll_end(animate=False)
        await view.shows("echo: number 17.")


async def test_a_host_that_is_killed_is_told_and_what_follows_comes_once(alone: Installation, opened: Open) -> None:
    with Client.local(alone.data, start=False) as client:
        start(client, alone, "away")
        client.send("away", "before")
        client.send("away", "[[stream 5 every 1]] [[hold never]]", wait_s=0)
        async with opened(alone, ref="away") as view:
            await view.shows("1 2 3 4 5", "running …")
            alone.kill()
            await view.shows("Offline")
            await view.type("kept")
            await view.until(lambda: view.app.screen.query_one(Prompt).text == "kept", "the unsent text")
            alone.serve()
            await view.until(lambda: "Offline" not in view.text, "end of the trouble")
            await view.shows("interrupted")
            await view.pilot.press("enter")
            await view.shows("echo: kept")
            reader = view.session._reader
            told = ["".join(part.text for part in item.parts) for item in reader.story.items if isinstance(item, Run)]
            texts: dict[str, str] = {}
            for event in client.journal("away"):
                if event.type == "turn.text" and event.turn_id:
                    texts[event.turn_id] = texts.get(event.turn_id, "") + event.data["text"]
        assert told == list(texts.values())
        assert len([data for data in accepted(client, "away") if data["text"] == "kept"]) == 1

"""The board, driven by keys against a real host."""

from pathlib import Path

from antiphon.client import Client
from antiphon.terminal.board import BoardScreen
from antiphon.terminal.seen import Seen
from antiphon.terminal.session import SessionScreen
from clientlab.running import Installation, until
from integration.terminal.conftest import Open, View


def keys(view: View) -> list[str]:
    """The sessions on the board, from top to bottom."""
    rows = [line.split() for line in view.text.splitlines()]
    words = {"asking", "stalled", "errored", "running", "idle", "dormant", "stopped"}
    return [row[row.index(word) + 1] for row in rows for word in row[:2] if word in words and len(row) > 2]


async def test_the_board_shows_all_by_attention_and_goes_on_by_itself(alone: Installation, opened: Open) -> None:
    with Client.local(alone.data, start=False) as client:
        for key in ("calm", "fails", "runs", "asks"):
            client.session_start("echo", key, cwd=str(alone.work), labels={"team": key[0]})
        client.send("fails", "[[fail no]]")
        client.send("runs", "[[hold runs-go]]", wait_s=0)
        client.send("asks", "[[ask May I?]]", wait_s=0)
        until(lambda: client.session("asks").status == "asking", "question", 30)
        assert client.send("calm", "hello").state == "answered"
        async with opened(alone) as view:
            await view.until(lambda: keys(view) == ["asks", "fails", "runs", "calm"], "the order")
            await view.shows("asks: May I?", "4 sessions", "1 asking")
            alone.release("runs-go")
            await view.until(lambda: keys(view)[2:] in (["runs", "calm"], ["calm", "runs"]), "the order")
            await view.until(lambda: not any("running" in line for line in view.text.splitlines()[2:-1]), "an end")
            client.session_start("echo", "new", cwd=str(alone.work))
            await view.shows("new", "5 sessions")
            client.session_delete("new")
            await view.until(lambda: "4 sessions" in view.text and "new" not in keys(view), "deletion")
            alone.kill()
            await view.shows("Offline")
            alone.serve()
            await view.until(lambda: "Offline" not in view.text and len(keys(view)) == 4, "return")


async def test_a_filter_narrows_and_escape_shows_all(host: Installation, client: Client, opened: Open) -> None:
    for key, team in (("apple", "a"), ("banana", "b"), ("avocado", "a")):
        client.session_start("echo", key, cwd=str(host.work), labels={"team": team})
    async with opened(host, wanted="label:team=a") as view:
        await view.until(lambda: set(keys(view)) == {"apple", "avocado"}, "team a")
        await view.pilot.press("escape")
        await view.until(lambda: {"apple", "banana", "avocado"} <= set(keys(view)), "all")
        await view.pilot.press("slash")
        await view.type("avo agent:echo")
        await view.until(lambda: keys(view) == ["avocado"], "one")


async def test_enter_opens_a_session_and_takes_its_mark_away(
    host: Installation, client: Client, opened: Open, tmp_path: Path
) -> None:
    marks = Seen("epoch", tmp_path / "seen")
    marks.keep()  # somebody has looked here before, so what is new is unread
    client.session_start("echo", "marked", cwd=str(host.work))
    client.send("marked", "hello")
    async with opened(host, wanted="marked") as view:
        await view.until(lambda: any("●" in line and "marked" in line for line in view.text.splitlines()), "the mark")
        await view.pilot.press("enter")
        await view.until(lambda: isinstance(view.app.screen, SessionScreen), "the session")
        await view.shows("echo: hello")
        await view.pilot.press("ctrl+b")
        await view.until(lambda: isinstance(view.app.screen, BoardScreen), "the board")
        await view.until(lambda: "●" not in view.text and "marked" in keys(view), "no mark")
        client.send("marked", "again")
        await view.shows("●")
    assert Seen("epoch", tmp_path / "seen").marks[client.session("marked").id] == 1

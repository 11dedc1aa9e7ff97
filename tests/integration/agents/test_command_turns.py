"""Any program as an agent: what it is given, what becomes of its output, how it ends."""

import sys
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from antiphon.agents.command import CommandAgent
from antiphon.ports.agent import Ended, Exited, Part, Text
from antiphon.testing.agent_contract import AgentContract, Peer
from antiphon.testing.agent_contract.staging import Conversation
from antiphon.testing.processes import alive, eventually


def conversation(tmp_path: Path, *command: str, **options: Any) -> AbstractAsyncContextManager[Conversation]:
    agent = CommandAgent("tool", {"command": list(command), **options})
    return AgentContract().conversation(Peer(agent=agent, cwd=str(tmp_path), says=str))


def python(source: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", source)


async def test_the_message_is_its_stdin_and_its_stdout_is_the_answer(tmp_path: Path):
    text = "a\u2028b 😀\n\n  as it is \n"
    async with conversation(tmp_path, "cat") as talk:
        assert not (await talk.ask("turn_1", text)).error
        assert talk.reply("turn_1") == text


async def test_files_are_named_by_their_paths_after_the_texts(tmp_path: Path):
    async with conversation(tmp_path, "cat") as talk:
        parts = (
            Part(text="one"),
            Part(path="/tmp/a.png", media_type="image/png"),
            Part(text="two"),
            Part(path="/tmp/b"),
        )
        await talk.agent.prompt("turn_1", parts)
        await talk.ended("turn_1")
        assert talk.reply("turn_1") == "one\n\ntwo\n/tmp/a.png\n/tmp/b"


async def test_the_answer_comes_in_pieces_of_whole_characters(tmp_path: Path):
    source = """
import os, time
for byte in "é😀é".encode():
    os.write(1, bytes([byte]))
    time.sleep(0.01)
"""
    async with conversation(tmp_path, *python(source)) as talk:
        await talk.ask("turn_1", "")
        assert talk.reply("turn_1") == "é😀é"
        assert len(talk.all(Text)) == 3


async def test_the_first_piece_comes_before_the_program_ends(tmp_path: Path):
    source = """
import os, pathlib, time
os.write(1, b"first ")
while not pathlib.Path("go").exists():
    time.sleep(0.01)
print("last")
"""
    async with conversation(tmp_path, *python(source)) as talk:
        await talk.prompt("turn_1", "")
        assert (await talk.first(Text)).text == "first "
        assert talk.agent.pid
        (tmp_path / "go").touch()
        await talk.ended("turn_1")
        assert talk.reply("turn_1") == "first last\n"
        assert talk.agent.pid is None


async def test_bytes_that_are_not_utf_8_become_replacements(tmp_path: Path):
    async with conversation(tmp_path, "printf", r"ok \377 then \342\202") as talk:
        await talk.ask("turn_1", "")
        assert talk.reply("turn_1") == "ok \ufffd then \ufffd"


async def test_it_is_told_who_asks(tmp_path: Path):
    script = 'echo "$ANTIPHON_SESSION_ID $ANTIPHON_SESSION_KEY $ANTIPHON_TURN_ID $GREETING"; env | grep -c ^ANTIPHON_'
    environment = {"GREETING": "hi", "ANTIPHON_TOKEN": "not for it"}
    async with conversation(tmp_path, "sh", "-c", script, environment=environment) as talk:
        await talk.ask("turn_1", "")
        assert talk.reply("turn_1") == "ses_contract contract:1 turn_1 hi\n3\n"


async def test_an_exit_code_fails_the_turn_and_stderr_says_why(tmp_path: Path):
    script = "echo part; echo 401 for $MY_API_KEY >&2; exit 3"
    async with conversation(tmp_path, "sh", "-c", script, environment={"MY_API_KEY": "sk-123456"}) as talk:
        ended = await talk.ask("turn_1", "")
        assert ended.error
        assert (ended.error.code, ended.error.detail) == ("agent_failed", "'sh' failed: exit 3. 401 for [redacted]")
        assert talk.reply("turn_1") == "part\n"


async def test_a_program_killed_by_a_signal_fails_the_turn(tmp_path: Path):
    async with conversation(tmp_path, "sh", "-c", "kill -SEGV $$") as talk:
        ended = await talk.ask("turn_1", "")
        assert ended.error
        assert "killed by signal 11" in ended.error.detail


async def test_a_program_that_reads_nothing_is_answered_all_the_same(tmp_path: Path):
    async with conversation(tmp_path, "echo", "fixed") as talk:
        for turn_id in ("turn_1", "turn_2"):
            assert not (await talk.ask(turn_id, "x" * 1_000_000)).error
            assert talk.reply(turn_id) == "fixed\n"


async def test_a_program_out_of_time_is_ended_with_everything_below_it(tmp_path: Path):
    script = "trap '' TERM; (trap '' TERM; setsid sleep 60) & echo part; sleep 60; sleep 60"
    async with conversation(tmp_path, "sh", "-c", script, timeout_s=0.3, patience_s=0.2) as talk:
        began = time.monotonic()
        ended = await talk.ask("turn_1", "")
        assert 0.5 <= time.monotonic() - began < 3
        assert ended.error
        assert "within 0.3 s" in ended.error.detail
        assert talk.reply("turn_1") == "part\n"
        assert not any(map(alive, talk.pids))


async def test_a_cancel_asks_first(tmp_path: Path):
    source = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("tidied up"), sys.exit(0)))
print("begun", flush=True)
time.sleep(60)
"""
    async with conversation(tmp_path, *python(source)) as talk:
        await talk.prompt("turn_1", "")
        await talk.first(Text)
        await talk.agent.cancel("turn_1")
        assert (await talk.ended("turn_1")).cancelled
        assert talk.reply("turn_1") == "begun\ntidied up\n"


async def test_a_cancel_before_the_program_runs_ends_the_turn(tmp_path: Path):
    async with conversation(tmp_path, "sh", "-c", "touch ran; sleep 60") as talk:
        await talk.agent.prompt("turn_1", (Part(text=""),))
        await talk.agent.cancel("turn_1")
        assert (await talk.ended("turn_1")).cancelled
        assert not (tmp_path / "ran").exists()


async def test_a_program_that_closed_its_stdout_is_waited_for(tmp_path: Path):
    async with conversation(tmp_path, "sh", "-c", "echo said; exec >&-; sleep 0.2; exit 5") as talk:
        ended = await talk.ask("turn_1", "")
        assert ended.error
        assert "exit 5" in ended.error.detail


async def test_a_missing_program_is_told_to_a_person(tmp_path: Path):
    agent = CommandAgent("tool", {"command": ["no-such-program"]})
    assert "'no-such-program'" in (await agent.missing() or "")
    async with conversation(tmp_path, "no-such-program") as talk:
        for turn_id in ("turn_1", "turn_2"):
            ended = await talk.ask(turn_id, "hello")
            assert ended.error
            assert ended.error.code == "agent_unavailable"
            assert "no program 'no-such-program'" in ended.error.detail


async def test_a_program_of_the_working_directory_is_found_there(tmp_path: Path):
    (tmp_path / "tool").write_text("#!/bin/sh\necho here\n")
    (tmp_path / "tool").chmod(0o755)
    assert await CommandAgent("tool", {"command": ["./tool"]}).missing() is None
    async with conversation(tmp_path, "./tool") as talk:
        await talk.ask("turn_1", "")
        assert talk.reply("turn_1") == "here\n"


async def test_between_two_messages_nothing_runs(tmp_path: Path):
    async with conversation(tmp_path, "cat") as talk:
        await talk.ask("turn_1", "hello")
        assert talk.agent.pid is None
        assert not talk.all(Exited)
        await talk.agent.close(1)
        assert (await talk.exited()).reason == "closed"


async def test_a_reader_that_goes_away_takes_the_program_with_it(tmp_path: Path):
    agent = CommandAgent("tool", {"command": ["sh", "-c", "echo begun; sleep 60"]})
    suite = AgentContract()
    running = await agent.open(suite.spec(Peer(agent=agent, cwd=str(tmp_path), says=str), {}), None)
    await running.prompt("turn_1", (Part(text=""),))
    said = running.said()
    assert isinstance(await anext(said), Text)
    pid = running.pid
    assert pid
    await said.aclose()
    await eventually(lambda: not alive(pid), what="its end")
    await running.close(0)


@pytest.mark.parametrize(
    "options",
    [{}, {"command": []}, {"command": "cat"}, {"command": ["cat"], "timeout": 3}, {"command": ["cat"], "timeout_s": 0}],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]):
    with pytest.raises(ValueError, match=r"command|timeout"):
        CommandAgent("tool", options)


async def test_a_turn_ends_once_when_its_program_ends_as_it_is_cancelled(tmp_path: Path):
    async with conversation(tmp_path, "cat") as talk:
        for place in range(20):
            await talk.prompt(f"turn_{place}", "quick")
            await talk.until(lambda p=place: talk.reply(f"turn_{p}"), "its answer")
            await talk.agent.cancel(f"turn_{place}")
            ended = await talk.ended(f"turn_{place}")
            assert ended.error is None
    assert len(talk.all(Ended)) == 20

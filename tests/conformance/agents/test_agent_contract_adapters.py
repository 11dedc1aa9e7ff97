"""Every adapter keeps the contract."""

import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon.agents.command import CommandAgent
from antiphon.agents.echo import EchoAgent
from antiphon.testing.agent_contract import AgentContract, Peer
from antiphon.testing.scripted_agent import (
    AnswerLate,
    Ask,
    Die,
    Fail,
    Hold,
    IgnoreCancel,
    Say,
    SayAfterEnd,
    ScriptedAgent,
    Step,
)

LOOPS = {"asyncio": ("asyncio", {"use_uvloop": False}), "uvloop": ("asyncio", {"use_uvloop": True})}


@pytest.fixture(params=list(LOOPS.values()), ids=list(LOOPS), scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """The loops that a host may run on."""
    return request.param


PROGRAM = """
import os, pathlib, signal, sys, time
word, _, rest = sys.stdin.read().partition(" ")
if word == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.write(1, b"never")
if word in ("hold", "stubborn"):
    gate, _, rest = rest.partition(" ")
    while not pathlib.Path(gate).exists(): time.sleep(0.01)
if word == "fail":
    sys.exit(rest)
sys.stdout.buffer.write(rest.encode())
"""


class TestEchoAgent(AgentContract):
    @pytest.fixture
    def peer(self, tmp_path: Path) -> Peer:
        return Peer(
            agent=EchoAgent("echo", {}),
            cwd=str(tmp_path),
            says=lambda word: word,
            holds=lambda gate, word: f"[[hold {gate}]] {word}",
            release=lambda gate: (tmp_path / gate).touch(),
            asks=lambda question: f"[[ask {question}]] done",
            fails=lambda reason: f"[[fail {reason}]]",
            dies=lambda code: f"[[exit {code}]]",
            stubborn=lambda gate: f"[[ignore-cancel]] [[stream 1 every 0]] [[hold {gate}]]",
            late=lambda gate, word: f"[[late 0.05]] [[stream 1 every 0]] [[hold {gate}]] {word}",
            spawns=lambda: "[[spawn]]",
            verbatim=True,
        )


class TestCommandAgent(AgentContract):
    @pytest.fixture
    def peer(self, tmp_path: Path) -> Peer:
        return Peer(
            agent=CommandAgent("command", {"command": [sys.executable, "-I", "-S", "-c", PROGRAM], "patience_s": 0.2}),
            cwd=str(tmp_path),
            says=lambda word: f"say {word}",
            holds=lambda gate, word: f"hold {gate} {word}",
            release=lambda gate: (tmp_path / gate).touch(),
            fails=lambda reason: f"fail {reason}",
            stubborn=lambda gate: f"stubborn {gate}",
            verbatim=True,
        )


class TestScriptedAgent(AgentContract):
    @pytest.fixture
    def peer(self, tmp_path: Path) -> Peer:
        agent = ScriptedAgent(obey)
        return Peer(
            agent=agent,
            cwd=str(tmp_path),
            says=lambda word: f"say {word}",
            holds=lambda gate, word: f"hold {gate} {word}",
            release=agent.release,
            asks=lambda question: f"ask {question}",
            fails=lambda reason: f"fail {reason}",
            dies=lambda code: f"die {code}",
            stubborn=lambda gate: f"stubborn {gate} never",
            late=lambda gate, word: f"late {gate} {word}",
            verbatim=True,
        )


def obey(text: str) -> list[Step]:
    """A script that does what the first word says."""
    word, _, rest = text.partition(" ")
    gate, _, after = rest.partition(" ")
    return {
        "say": [Say("you said: "), Say(rest)],
        "hold": [Hold(gate), Say(after)],
        "ask": [Ask(rest), Say("done")],
        "fail": [Fail(rest)],
        "die": [Die(int(rest)) if rest.isdigit() else Say("")],
        "stubborn": [IgnoreCancel(), Say("never"), Hold(gate), Say(after)],
        "late": [AnswerLate((Say(f"{after}, late"), SayAfterEnd(", and later"))), Say("soon"), Hold(gate)],
    }.get(word, [Say(text)])

"""`session watch` in a pipe: plain lines, through restarts of the host, until the reader leaves."""

import json
import subprocess
from typing import Any
from uuid import uuid4

import pytest

from antiphon.client import Client
from clientlab.running import Installation


@pytest.fixture
def key() -> str:
    """A key that no other test has."""
    return f"test:{uuid4()}"


def test_watching_goes_on_through_a_crash_of_the_host_and_tells_every_event_once(alone: Installation) -> None:
    alone.serve()
    with Client.local(alone.data, start=False) as client:
        client.session_start("echo", "k", cwd=str(alone.work))
        client.send("k", "one")
        client.send("k", "[[stream 3 every 1]] [[hold never]]", wait_s=0)
        watching = alone.popen("session", "watch", "k", "--json")
        assert watching.stdout
        told: list[dict[str, Any]] = []
        while sum(event["type"] == "turn.text" for event in told) < 4:  # "echo: one", then three pieces
            told.append(json.loads(watching.stdout.readline()))
        alone.kill()
        alone.serve()
        client.send("k", "two")
        journal = [event.cursor for event in client.journal("k")]
        while len(told) < len(journal):  # it is there again
            told.append(json.loads(watching.stdout.readline()))
        client.session_delete("k")
    told += map(json.loads, watching.stdout)
    assert watching.stderr
    assert (watching.wait(60), watching.stderr.read()) == (0, "")
    cursors = [event["cursor"] for event in told]
    assert cursors[: len(journal)] == journal
    assert len(set(cursors)) == len(cursors)
    assert told[-1]["type"] == "session.deleted"


def test_only_the_types_that_are_wanted_are_shown(host: Installation, key: str) -> None:
    host.run("session", "message", key, "[[tool Read]] hello", "--agent", "echo")
    options = ("--types", "turn.text,turn.tool_started", "--types", "session.created", "--json")
    watching = host.popen("session", "watch", key, *options)
    assert watching.stdout
    told = [json.loads(watching.stdout.readline())]
    host.run("session", "delete", key)
    kinds = [event["type"] for event in (*told, *map(json.loads, watching.stdout))]
    assert kinds == ["session.created", "turn.tool_started", "turn.text", "session.deleted"]


def test_a_reader_of_the_pipe_may_leave(host: Installation, key: str) -> None:
    host.run("session", "message", key, "hello", "--agent", "echo")
    watching = host.popen("session", "watch", key, text=True)
    with subprocess.Popen(["head", "-n", "2"], stdin=watching.stdout, stdout=subprocess.PIPE, text=True) as head:
        assert watching.stdout
        watching.stdout.close()
        out, _ = head.communicate(timeout=30)
    assert len(out.splitlines()) == 2
    host.run("session", "message", key, "one more, so that there is something to write")
    assert watching.wait(30) == 141
    assert watching.stderr
    assert watching.stderr.read() == ""

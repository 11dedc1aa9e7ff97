"""Commands that find no host: one of them starts it, and nobody starts a second."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from clientlab.running import Installation, until

SEND = ("session", "message", "k", "hello", "--agent", "echo")


def dead_pid() -> int:
    """The pid of a process that has ended and was reaped."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(10)
    return process.pid


def hosts(alone: Installation) -> set[int]:
    """The pids of the hosts that serve this data directory."""
    found: set[int] = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"serve" in words and str(alone.data).encode() in words:
            found.add(int(entry.name))
    return found


def test_ten_commands_at_once_start_one_host_and_are_answered(alone: Installation) -> None:
    senders = [alone.popen(*SEND, "--quiet") for _ in range(10)]

    ends = [(sender.communicate(timeout=60), sender.returncode) for sender in senders]

    assert ends == [(("echo: hello\n", ""), 0)] * 10
    assert hosts(alone) == {alone.ready()["pid"]}
    assert len(alone.run("session", "turns", "k", "--json").json["items"]) == 10


def test_a_host_that_a_command_started_is_nobodys_child_and_in_nobodys_terminal(alone: Installation) -> None:
    assert alone.run(*SEND, env={"ANTIPHON_TOKEN": ""}).out == "echo: hello\n"

    pid = alone.ready()["pid"]
    assert os.getsid(pid) == pid
    process = Path(f"/proc/{pid}")
    assert (process / "cwd").readlink() == Path("/")
    assert [(process / f"fd/{n}").readlink().name for n in range(3)] == ["null", "host.log", "host.log"]
    assert stat.S_IMODE(alone.data.stat().st_mode) == 0o700
    assert stat.S_IMODE((alone.data / "host.log").stat().st_mode) == 0o600
    assert b"ANTIPHON_TOKEN" not in (process / "environ").read_bytes()


@pytest.mark.parametrize("kind", ["dead process", "nobody listens", "damaged"])
def test_a_ready_file_that_a_crash_left_is_no_host(kind: str, alone: Installation) -> None:
    alone.data.mkdir(mode=0o700)
    stale = {"url": "http://127.0.0.1:9", "pid": dead_pid() if kind == "dead process" else os.getpid(), "token": "t"}
    (alone.data / "ready.json").write_text("{" if kind == "damaged" else json.dumps(stale))

    assert alone.run("session", "list", "--no-start").code == 5
    assert alone.run(*SEND).out == "echo: hello\n"
    assert alone.ready()["pid"] in hosts(alone)


def test_after_a_crash_the_next_command_starts_a_host_again(alone: Installation) -> None:
    alone.run(*SEND)
    pid = alone.ready()["pid"]
    os.kill(pid, 9)
    until(lambda: not hosts(alone), "end of the host")

    assert alone.run(*SEND).out == "echo: hello\n"
    assert alone.ready()["pid"] != pid


def test_no_start_starts_nothing_and_makes_nothing(alone: Installation) -> None:
    for line in (("session", "list", "--no-start"), ("--no-start", "status"), ("--no-start", *SEND)):
        done = alone.run(*line)
        assert (done.code, done.out) == (5, "")
        assert "antiphon serve" in done.err
    assert not alone.data.exists()


def test_with_an_address_in_the_environment_nothing_is_started(alone: Installation) -> None:
    away = {"ANTIPHON_URL": "http://127.0.0.1:9"}

    assert alone.run(*SEND, env=away).code == 5
    done = subprocess.run([alone.command, *SEND], env=alone.environment | away, capture_output=True, check=False)
    assert done.returncode == 5
    assert not alone.data.exists()


def test_a_host_that_can_not_start_is_told_with_its_last_words(alone: Installation) -> None:
    alone.data.mkdir()
    (alone.data / "antiphon.toml").write_text("this is no toml \x1b[2J")

    done = alone.run(*SEND, seconds=40)

    assert (done.code, done.out) == (5, "")
    assert str(alone.data / "host.log") in done.err
    assert "antiphon.toml" in done.err
    assert "\x1b" not in done.err
    assert not hosts(alone)
    (alone.data / "antiphon.toml").unlink()
    assert alone.run(*SEND).out == "echo: hello\n"


def test_a_data_directory_that_can_not_be_made_is_told(alone: Installation) -> None:
    alone.data.write_text("a file")

    done = alone.run(*SEND)

    assert (done.code, done.out) == (5, "")
    assert str(alone.data) in done.err


def test_a_command_that_is_killed_while_starting_holds_nobody_up(alone: Installation) -> None:
    first = alone.popen(*SEND)
    until((alone.data / "starting.lock").exists, "start")
    first.kill()
    first.communicate()

    assert alone.run(*SEND, seconds=40).out == "echo: hello\n"
    until(lambda: hosts(alone) == {alone.ready()["pid"]}, "end of the host that came second, if there were two")


def test_a_send_outlasts_a_crash_and_restart_of_the_host(alone: Installation) -> None:
    alone.serve()
    alone.run(*SEND)
    senders = {
        more: alone.popen("session", "message", f"k{n}", "[[stream 3 every 1]] [[sleep 60]]", "--agent", "echo", *more)
        for n, more in enumerate([(), ("--stream",)])
    }
    until(lambda: alone.run("status", "--json").json["turns_running"] == 2, "two turns")
    queued = alone.popen("session", "message", "k0", "after")
    until(lambda: alone.run("status", "--json").json["messages_queued"] == 1, "a message in the queue")

    alone.kill()
    alone.serve()

    for more, sender in senders.items():
        out, err = sender.communicate(timeout=30)
        assert sender.returncode == 7
        assert out.strip() == ("1 2 3" if more and out else "")
        assert "interrupted" in err
    out, _ = queued.communicate(timeout=30)
    assert (queued.returncode, out) == (0, "echo: after\n")
    assert len(hosts(alone)) == 1


def test_a_host_that_does_not_come_back_is_told_with_the_messages_id(alone: Installation) -> None:
    alone.serve()
    sender = alone.popen("session", "message", "k", "[[sleep 60]]", "--agent", "echo", "--timeout", "3")
    until(lambda: alone.run("status", "--json").json["turns_running"], "running turn")
    alone.kill()

    out, err = sender.communicate(timeout=20)

    assert (sender.returncode, out) == (6, "")
    assert err.startswith("msg_")


@pytest.mark.parametrize("variable", ["ANTIPHON_DATA_DIR", "XDG_DATA_HOME"])
def test_the_environment_says_where_the_data_is(variable: str, alone: Installation) -> None:
    place = alone.work / "elsewhere"
    environment = alone.environment | {variable: str(place)}
    done = subprocess.run(
        [alone.command, *SEND], env=environment, cwd=alone.work, capture_output=True, text=True, timeout=40, check=False
    )
    alone.data = place if variable == "ANTIPHON_DATA_DIR" else place / "antiphon"

    assert done.stdout == "echo: hello\n"
    assert alone.ready()["pid"] in hosts(alone)

"""`antiphon session message`, with everything that can happen to it."""

import os
import signal
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

from clientlab.cutting import Cut, CuttingProxy
from clientlab.running import Installation, until

ECHO = ("--agent", "echo")


@pytest.fixture
def key() -> str:
    """A key that no other test has."""
    return f"test:{uuid4()}"


def message_ids(host: Installation, key: str) -> list[str]:
    """The messages that a session has answered or runs, in order."""
    turns = host.run("session", "turns", key, "--json").json["items"]
    return [message_id for turn in turns for message_id in turn["message_ids"]]


@pytest.mark.parametrize(
    "more", [(), ("--stream",), ("--timeout", "10"), ("--stream", "--timeout", "10"), ("--quiet",)]
)
def test_the_answer_is_alone_on_stdout(more: tuple[str, ...], host: Installation, key: str) -> None:
    done = host.run("session", "message", key, "hello", *ECHO, *more)

    assert done == (0, "echo: hello\n", "")


@pytest.mark.parametrize(
    ("stdin", "reply"),
    [
        ("hello", "hello"),
        ("hello\n", "hello"),
        ("hello\r\n", "hello"),
        ("a\n\n", "a\n"),
        (" a b ", " a b "),
        ("é😀\u2028", "é😀\u2028"),
    ],
)
def test_stdin_is_the_message_but_for_one_line_ending(stdin: str, reply: str, host: Installation, key: str) -> None:
    process = subprocess.run(
        [host.command, "--data-dir", str(host.data), "session", "message", key, "-", *ECHO],
        input=stdin.encode(), capture_output=True, env=host.environment, timeout=20, check=True,
    )  # fmt: skip

    assert process.stdout.decode() == f"echo: {reply}\n"


def test_without_a_text_stdin_is_read(host: Installation, key: str) -> None:
    assert host.run("session", "message", key, *ECHO, stdin="piped\n").out == "echo: piped\n"
    nothing = host.run("session", "message", key)
    assert (nothing.code, nothing.out) == (2, "")


def test_stdin_that_is_not_text_is_refused(host: Installation, key: str) -> None:
    process = subprocess.run(
        [host.command, "--data-dir", str(host.data), "session", "message", key, "-", *ECHO],
        input=b"\xff\xfe", capture_output=True, env=host.environment, timeout=20, check=False,
    )  # fmt: skip

    assert (process.returncode, process.stdout) == (2, b"")
    assert b"UTF-8" in process.stderr


def test_with_json_stdout_is_the_receipt_and_nothing_else(host: Installation, key: str) -> None:
    for more in ((), ("--stream",), ("--no-wait",)):
        done = host.run("session", "message", key, "hello", *ECHO, "--json", *more)
        assert done.code == 0
        assert done.out.count("\n") == 1
        assert done.json["id"].startswith("msg_")
    failed = host.run("session", "message", key, "[[fail boom]]", "--json")
    assert (failed.code, failed.json["state"]) == (1, "failed")
    timed = host.run("session", "message", key, "[[sleep 9]]", "--json", "--timeout", "0.2")
    assert (timed.code, timed.json["state"]) == (6, "running")


@pytest.mark.parametrize("more", [(), ("--stream",)])
def test_a_failed_turn_says_why_on_stderr(more: tuple[str, ...], host: Installation, key: str) -> None:
    done = host.run("session", "message", key, "[[fail \x1b[2Jboom]]", *ECHO, *more)

    assert (done.code, done.out) == (1, "")
    assert "boom" in done.err
    assert "\x1b" not in done.err


def test_a_streamed_answer_comes_piece_by_piece(host: Installation, key: str) -> None:
    name = uuid4().hex
    sender = host.popen("session", "message", key, f"[[stream 3 every 1]] [[hold {name}]] end", *ECHO, "--stream")
    assert sender.stdout
    early = sender.stdout.read(5)
    assert early == "1 2 3"
    assert sender.poll() is None
    host.release(name)
    late = sender.stdout.read()
    _, err = sender.communicate(timeout=10)

    assert (sender.returncode, early + late, err) == (0, "1 2 3 echo: end\n", "")


def test_the_wait_ends_on_time_and_the_turn_goes_on(host: Installation, key: str) -> None:
    for more in ((), ("--stream",)):
        done = host.run("session", "message", key, "[[sleep 1]] hello", *ECHO, "--timeout", "0.3", *more)
        assert (done.code, done.out) == (6, "")
        message_id = done.err.split()[0]
        assert host.run("message", "wait", message_id) == (0, "echo: hello\n", "")


def test_a_message_that_waits_says_what_for_unless_it_shall_be_quiet(host: Installation, key: str) -> None:
    name = uuid4().hex
    host.run("session", "message", key, f"[[hold {name}]]", *ECHO, "--no-wait")
    until(lambda: message_ids(host, key), "running turn")

    told = host.run("session", "message", key, "x", "--timeout", "0.2")
    quiet = host.run("session", "message", key, "x", "--timeout", "0.2", "--quiet")
    host.release(name)

    assert "place 1" in told.err
    assert len(quiet.err.splitlines()) == 1


def test_no_wait_prints_the_id_at_once(host: Installation, key: str) -> None:
    done = host.run("session", "message", key, "[[sleep 1]] hello", *ECHO, "--no-wait")

    assert (done.code, done.err) == (0, "")
    assert host.run("message", "wait", done.out.strip()).out == "echo: hello\n"


@pytest.mark.parametrize("more", [(), ("--stream",), ("--json",)])
def test_ctrl_c_ends_the_waiting_and_prints_the_id(more: tuple[str, ...], host: Installation, key: str) -> None:
    name = uuid4().hex
    sender = host.popen("session", "message", key, f"[[hold {name}]] hello", *ECHO, *more)
    (message_id,) = until(lambda: message_ids(host, key) if host.run("session", "show", key).code == 0 else [], "turn")
    sender.send_signal(signal.SIGINT)
    out, err = sender.communicate(timeout=5)
    host.release(name)

    assert (sender.returncode, out) == (130, "")
    assert message_id in err
    assert "Traceback" not in err
    assert host.run("message", "wait", message_id) == (0, "echo: hello\n", "")


def test_the_same_key_is_the_same_message(host: Installation, key: str) -> None:
    line = ("session", "message", key, "hello", *ECHO, "--idempotency-key", "k1")
    assert [host.run(*line).out for _ in range(2)] == ["echo: hello\n"] * 2
    assert len(message_ids(host, key)) == 1
    other = host.run("session", "message", key, "other", *ECHO, "--idempotency-key", "k1")
    assert (other.code, other.out) == (3, "")


def test_files_are_sent_by_their_absolute_paths(host: Installation, key: str) -> None:
    (host.work / "note.txt").write_text("x")
    assert host.run("session", "message", key, "see", *ECHO, "--file", "note.txt").code == 0
    events = host.popen("session", "watch", key, "--json")
    assert events.stdout
    accepted = next(line for line in events.stdout if '"message.accepted"' in line)
    events.kill()
    events.communicate()

    assert f'"path": "{host.work / "note.txt"}"' in accepted


def test_an_agent_works_where_the_command_was_run(host: Installation, key: str) -> None:
    (host.work / "below").mkdir(exist_ok=True)
    host.run("session", "message", key, "x", *ECHO)
    host.run("session", "message", f"{key}2", "x", *ECHO, "--cwd", "below")

    assert host.run("session", "show", key, "--json").json["cwd"] == str(host.work)
    assert host.run("session", "show", f"{key}2", "--json").json["cwd"] == str(host.work / "below")


def through(host: Installation, proxy: CuttingProxy, *line: str) -> tuple[int, str]:
    """Run a command whose way to the host leads through a proxy."""
    away = {"ANTIPHON_URL": proxy.url, "ANTIPHON_TOKEN": host.ready()["token"]}
    done = subprocess.run(
        [host.command, *line], env=host.environment | away, capture_output=True, text=True, timeout=30, check=False
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


def address(host: Installation) -> tuple[str, int]:
    """Where the host listens."""
    name, port = host.ready()["url"].removeprefix("http://").split(":")
    return name, int(port)


def test_a_lost_answer_does_not_double_a_message(host: Installation, key: str) -> None:
    def rule(line: str, number: int) -> Cut | None:
        return Cut("swallow") if line.startswith("POST") and number <= 3 else None

    with CuttingProxy(address(host), rule) as proxy:
        assert through(host, proxy, "session", "message", key, "once", *ECHO) == (0, "echo: once\n")

    assert len(message_ids(host, key)) == 1


@pytest.mark.parametrize("places", [[300], [800, 200], [1200, 40, 500]])
def test_a_stream_that_breaks_prints_no_piece_twice(places: list[int], host: Installation, key: str) -> None:
    left = list(places)
    with CuttingProxy(address(host), lambda line, number: Cut("after", left.pop(0)) if left else None) as proxy:
        code, out = through(host, proxy, "session", "message", key, "[[stream 40 every 5]] end", *ECHO, "--stream")

    expected = " ".join(map(str, range(1, 41)))
    assert (code, out) == (0, f"{expected} echo: end\n")
    assert not left
    assert len(message_ids(host, key)) == 1


def test_a_reader_that_goes_away_ends_the_command_quietly(host: Installation, key: str) -> None:
    for line in (["session", "message", key, "[[bytes 300000]]", *ECHO], ["session", "list"], ["--help"]):
        sender = host.popen(*line)
        assert sender.stdout
        assert sender.stderr
        sender.stdout.close()
        assert sender.wait(10) == 141
        assert sender.stderr.read() == ""
        sender.stderr.close()


def test_a_full_disk_is_told(host: Installation) -> None:
    with Path("/dev/full").open("w") as full:
        done = host.popen("session", "list", stdout=full)
        _, err = done.communicate(timeout=10)

    assert done.returncode == 1
    assert "No space left" in err


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_standard_stream_breaks_nothing(closed: int, host: Installation, key: str) -> None:
    line = [host.command, "--data-dir", str(host.data), "session", "message", key, "hello", *ECHO]
    shell = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}>&-', "sh", *line],
        capture_output=True, text=True, env=host.environment, timeout=20, check=False,
    )  # fmt: skip

    assert (shell.returncode, shell.stderr) == (0, "")
    assert shell.stdout == ("" if closed == 1 else "echo: hello\n")


def test_an_answer_on_a_terminal_can_not_control_it(host: Installation, key: str) -> None:
    ours, theirs = os.openpty()
    evil = "\x1b]0;owned\x07\x1b[2Jend"
    for more in ((), ("--stream",)):
        sender = host.popen("session", "message", key, evil, *ECHO, *more, stdout=theirs, stderr=theirs)
        assert sender.wait(15) == 0
        shown = os.read(ours, 10_000).decode()
        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert shown.startswith("echo: \\x1b]0;owned\\x07")
    os.close(ours)
    os.close(theirs)


def test_on_a_terminal_a_missing_text_is_bad_usage(host: Installation, key: str) -> None:
    ours, theirs = os.openpty()
    done = host.popen("session", "message", key, stdin=theirs)
    _, err = done.communicate(timeout=10)
    os.close(ours)
    os.close(theirs)

    assert done.returncode == 2
    assert "say what to send" in err

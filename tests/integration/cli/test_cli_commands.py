"""Every command against a real host."""

import json
from uuid import uuid4

import pytest

from clientlab.running import Installation, until

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m"


@pytest.fixture
def key() -> str:
    """A key that no other test has."""
    return f"test:{uuid4()}"


def held(host: Installation, key: str) -> tuple[str, str]:
    """A message whose turn runs until its name is released: the name, and the message's id."""
    name = uuid4().hex
    done = host.run("session", "message", key, f"[[hold {name}]] {name}", "--agent", "echo", "--no-wait")
    message_id = done.out.strip()
    until(lambda: host.run("message", "show", message_id, "--json").json["state"] == "running", "running turn")
    return name, message_id


def test_a_session_is_started_shown_listed_and_named(host: Installation, key: str) -> None:
    line = (
        "session",
        "start",
        key,
        "--agent",
        "echo",
        "--title",
        "T",
        "--label",
        "a=1",
        "--setting",
        "stall_after_s=600",
    )
    started = host.run(*line)
    assert (started.code, started.out) == (0, f"{key}\n")
    shown = host.run("session", "show", key, "--json").json
    assert (shown["title"], shown["labels"], shown["settings"], shown["cwd"]) == (
        "T", {"a": "1"}, {"stall_after_s": 600}, str(host.work),
    )  # fmt: skip
    human = host.run("session", "show", key).out
    assert all(word in human for word in (key, shown["id"], "a=1", "echo", str(host.work), "generation"))
    assert key in host.run("session", "list", "--label", "a=1").out
    assert key in host.run("session", "list", "--search", key[5:20], "--refs").out.splitlines()
    assert host.run("session", "list", "--label", f"a={key}").out == ""

    again = host.run("session", "start", key, "--agent", "echo")
    assert (again.code, again.out) == (3, "")
    assert "--if-exists return" in again.err
    assert host.run("session", "start", key, "--agent", "echo", "--if-exists", "return").out == f"{key}\n"
    nameless = host.run("session", "start", "--agent", "echo")
    assert nameless.out.startswith("ses_")


def test_a_list_is_short_unless_all_of_it_is_asked_for(host: Installation, key: str) -> None:
    for n in range(3):
        host.run("session", "start", f"{key}{n}", "--agent", "echo")

    short = host.run("session", "list", "--search", key, "--limit", "2")
    assert len(short.out.splitlines()) == 3
    assert "--all" in short.err
    assert len(host.run("session", "list", "--search", key, "--all", "--json").json["items"]) == 3


def test_a_session_is_renamed_and_changed(host: Installation, key: str) -> None:
    host.run("session", "start", key, "--agent", "echo", "--label", "a=1")

    assert host.run("session", "rename", key, "New title").code == 0
    line = (
        "--model",
        "m",
        "--label",
        "a=",
        "--label",
        "b=2",
        "--setting",
        "stall_after_s=500",
        "--when-busy",
        "collect",
    )
    changed = host.run("session", "set", key, *line, "--json").json
    assert {name: changed[name] for name in ("title", "model", "labels", "when_busy", "settings")} == {
        "title": "New title", "model": "m", "labels": {"b": "2"}, "when_busy": "collect",
        "settings": {"stall_after_s": 500},
    }  # fmt: skip
    assert host.run("session", "set", key, "--title", "x", "--if-match", "1").code == 3
    assert host.run("session", "set", key).code == 2
    assert host.run("session", "rename", key, "", "--json").json["title"] is None


def test_the_life_of_a_session_stop_resume_clear_delete(host: Installation, key: str) -> None:
    assert host.run("session", "message", key, "one", "--agent", "echo").out == "echo: one\n"
    assert host.run("session", "stop", key).code == 0
    refused = host.run("session", "message", key, "two")
    assert (refused.code, refused.out) == (3, "")
    assert "antiphon session resume" in refused.err
    assert host.run("session", "resume", key).code == 0
    assert "echo: one" in host.run("session", "transcript", key).out
    cleared = host.run("session", "clear", key)
    assert (cleared.code, cleared.out) == (0, "")
    assert host.run("session", "transcript", key).out == ""
    earlier = host.run("session", "transcript", key, "--generation", "1", "--json").json["items"]
    assert [(line["role"], line["text"]) for line in earlier] == [("user", "one"), ("assistant", "echo: one")]
    assert host.run("session", "delete", key).code == 0
    assert host.run("session", "show", key).code == 4


def test_an_export_is_a_file_that_an_import_takes(host: Installation, key: str) -> None:
    host.run("session", "message", key, "kept", "--agent", "echo")
    assert host.run("session", "export", key, "-o", "export.json").code == 0
    told = host.run("session", "export", key, "-o", "export.json", "--json")
    assert told.json == {"file": "export.json"}
    to_stdout = host.run("session", "export", key)
    assert to_stdout.json["antiphon_export"] == json.loads((host.work / "export.json").read_text())["antiphon_export"]
    host.run("session", "delete", key)

    assert host.run("session", "import", "export.json").out == f"{key}\n"
    assert "echo: kept" in host.run("session", "transcript", key).out
    copy = host.run("session", "import", "-", stdin=to_stdout.out)
    assert (copy.code, copy.out[:4]) == (0, "ses_")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("session", "import", "nowhere.json"), "can't be read"),
        (("session", "import", "not.json"), "not JSON"),
        (("session", "import", "list.json"), "not a JSON object"),
        (("session", "start", "k"), "--agent NAME"),
        (("session", "watch", "k", "--after", "x", "--from-now"), "exclude"),
        (("session", "message", "k", ""), "empty"),
        (("session", "message", "k", "hi", "--cwd", "/"), "--agent NAME"),
        (("session", "message", "k", "hi", "--file", "nowhere"), "--file nowhere"),
        (("session", "message", "k", "hi", "--idempotency-key", "é"), "printable ASCII"),
        (("session", "message", "k", "hi", "--no-wait", "--stream"), "--no-wait"),
        (("session", "start", "a\nb", "--agent", "echo"), "control"),
        (("session", "list", "--label", "x"), "NAME=VALUE"),
        (("session", "message", "k", "\udcff\udcfe", "--agent", "echo"), "not UTF-8"),
        (("session", "show", "\udcff"), "not UTF-8"),
        (("serve", "--port", "70000"), "65535"),
    ],
)
def test_bad_usage_is_told_in_words(line: tuple[str, ...], words: str, host: Installation) -> None:
    (host.work / "not.json").write_text("{")
    (host.work / "list.json").write_text("[]")

    done = host.run(*line)

    assert (done.code, done.out) == (2, "")
    assert words in done.err


@pytest.mark.parametrize(
    "line",
    [
        ("session", "show", "nobody"),
        ("session", "message", "nobody", "hi"),
        ("session", "message", "nobody", "hi", "--stream"),
        ("session", "watch", "nobody"),
        ("session", "queue", "nobody"),
        ("session", "turns", "nobody"),
        ("session", "transcript", "nobody"),
        ("session", "export", "nobody"),
        ("session", "start", "k", "--agent", "nobody"),
        ("message", "show", "msg_x"),
        ("message", "wait", "msg_x"),
        ("message", "withdraw", "msg_x"),
        ("turn", "show", "turn_x"),
        ("turn", "wait", "turn_x"),
        ("turn", "cancel", "turn_x"),
        ("permission", "allow", "perm_x"),
        ("agent", "check", "nobody"),
        ("token", "revoke", "tok_x"),
    ],
)
def test_what_is_not_there_is_exit_code_4(line: tuple[str, ...], host: Installation) -> None:
    done = host.run(*line)

    assert (done.code, done.out) == (4, "")
    assert done.err.startswith("antiphon: ")


def test_a_refusal_is_one_problem_document_for_programs(host: Installation, key: str) -> None:
    _, message_id = held(host, key)

    refused = host.run("session", "message", key, "now", "--when-busy", "refuse", "--json")

    assert (refused.code, refused.out) == (3, "")
    problem = json.loads(refused.err)
    assert (problem["code"], problem["holder"]["message_id"]) == ("session_busy", message_id)


def test_what_waits_is_shown_reordered_edited_and_withdrawn(host: Installation, key: str) -> None:
    name, first = held(host, key)
    waiting = [host.run("session", "message", key, text, "--no-wait").out.strip() for text in "abc"]
    a, b, c = waiting

    assert [line.split()[1] for line in host.run("session", "queue", key).out.splitlines()[1:]] == waiting
    reordered = host.run("session", "queue", key, c, a, b, "--json").json["items"]
    assert [(each["id"], each["position"]) for each in reordered] == [(c, 1), (a, 2), (b, 3)]
    assert host.run("message", "edit", a, "A").code == 0
    assert host.run("message", "edit", b, "--when-busy", "collect", "--json").json["when_busy"] == "collect"
    assert host.run("message", "edit", b, "-", stdin="B\n").code == 0
    assert host.run("message", "withdraw", c).code == 0
    assert host.run("message", "withdraw", first).code == 3
    host.release(name)
    assert host.run("message", "wait", first).out == f"echo: {name}\n"
    assert host.run("message", "wait", a).out == "echo: A\n"
    assert host.run("message", "wait", b).out == "echo: B\n"
    assert host.run("message", "wait", c).code == 7
    assert host.run("session", "queue", key).out == ""
    shown = host.run("message", "show", a).out
    assert all(word in shown for word in (a, "answered", "echo: A", key))


def test_turns_are_listed_shown_waited_for_and_cancelled(host: Installation, key: str) -> None:
    done = host.run("session", "message", key, "done", "--agent", "echo", "--json").json
    name, message_id = held(host, key)
    turn_id = host.run("message", "show", message_id, "--json").json["turn_id"]

    timed = host.run("turn", "wait", turn_id, "--timeout", "0.2")
    assert (timed.code, timed.out) == (6, "")
    assert turn_id in timed.err
    assert host.run("turn", "cancel", turn_id, "--json").json["confirmed"] is True
    assert host.run("turn", "wait", turn_id).code == 7
    assert host.run("turn", "cancel", turn_id).code == 3
    assert host.run("turn", "wait", done["turn_id"]).out == "echo: done\n"
    assert "completed" in host.run("turn", "show", done["turn_id"]).out
    listed = host.run("session", "turns", key, "--json").json["items"]
    assert [turn["state"] for turn in listed] == ["completed", "cancelled"]
    assert turn_id in host.run("session", "turns", key).out
    host.release(name)


def test_questions_are_listed_and_answered(host: Installation, key: str) -> None:
    host.run("session", "start", key, "--agent", "echo")
    asking = host.popen("session", "message", key, "[[ask may I]] [[ask again]] done", "--stream")
    first = until(lambda: host.run("permission", "list", "--session", key, "--json").json["items"], "question")[0]
    assert "may I" in host.run("permission", "list").out
    assert host.run("permission", "allow", first["id"], "--note", "yes", "--json").json["state"] == "allowed"
    second = until(lambda: host.run("permission", "list", "--session", key, "--json").json["items"], "question")[0]
    assert host.run("permission", "deny", second["id"]).code == 0
    assert host.run("permission", "deny", second["id"]).code == 3
    _, err = asking.communicate(timeout=10)
    assert f"antiphon permission allow {first['id']}" in err
    states = host.run("permission", "list", "--session", key, "--state", "all", "--json").json["items"]
    assert {each["state"] for each in states} == {"allowed", "denied"}


def test_agents_are_listed_and_checked(host: Installation) -> None:
    assert "echo" in host.run("agent", "list", "--names").out.splitlines()
    assert "steer" in next(line for line in host.run("agent", "list").out.splitlines() if line.startswith("echo"))
    assert host.run("agent", "check", "echo").code == 0
    assert host.run("agent", "check", "echo", "--json").json["available"] is True
    assert len(host.run("agent", "check").out.splitlines()) > 1


def test_a_token_is_told_once_and_opens_what_its_scope_allows(host: Installation) -> None:
    made = host.run("token", "create", "reader", "--scope", "read")
    secret, token_id = made.out.strip(), made.err.split()[0]

    assert host.run("session", "list", env={"ANTIPHON_TOKEN": secret}).code == 0
    for refused in (
        host.run("session", "start", "--agent", "echo", "--token", secret),
        host.run("session", "list", env={"ANTIPHON_TOKEN": "wrong"}),
    ):
        assert (refused.code, refused.out) == (8, "")
    listed = host.run("token", "list").out
    assert token_id in listed
    assert secret not in listed
    assert host.run("token", "revoke", token_id).code == 0
    assert host.run("session", "list", env={"ANTIPHON_TOKEN": secret}).code == 8


def test_the_status_is_for_people_and_for_programs(host: Installation) -> None:
    assert host.run("status", "--json").json["store"] == "sqlite"
    human = host.run("status").out
    assert host.ready()["url"] in human
    assert str(host.data) in human


def test_a_host_is_reached_by_its_address_too(host: Installation) -> None:
    ready = host.ready()
    away = {"ANTIPHON_URL": ready["url"], "ANTIPHON_TOKEN": ready["token"]}

    import subprocess

    for environment, line, code in (
        (away, ["status"], 0),
        ({}, ["--url", ready["url"], "--token", ready["token"], "status"], 0),
        ({}, ["--url", ready["url"], "status"], 8),
        (away, ["--url", "http://127.0.0.1:9", "status"], 5),
        (away, ["--url", "nonsense", "status"], 5),
        (away, ["doctor"], 0),
    ):
        settings = {"env": host.environment | environment, "cwd": host.work, "capture_output": True, "timeout": 20}
        done = subprocess.run([host.command, *line], check=False, **settings)  # pyright: ignore[reportCallIssue, reportArgumentType]
        assert done.returncode == code, (line, done)


def test_nothing_that_others_wrote_controls_the_terminal(host: Installation, key: str) -> None:
    host.run("session", "message", key, f"say {EVIL}", "--agent", "echo")
    host.run("session", "rename", key, EVIL)

    for line in (
        ("session", "list"), ("session", "show", key), ("session", "turns", key), ("session", "list", "--refs"),
    ):  # fmt: skip
        out = host.run(*line).out
        assert not set(out) & {"\x1b", "\x07", "\x9b"}
        assert "\\x1b" in out or "--refs" in line


def test_watching_shows_every_event_and_ends_with_the_session(host: Installation, key: str) -> None:
    host.run("session", "message", key, f"before {EVIL}", "--agent", "echo")
    human = host.popen("session", "watch", key)
    programs = host.popen("session", "watch", key, "--json")
    later = host.popen("session", "watch", key, "--from-now", "--json")
    journal = [json.loads(programs.stdout.readline()) for _ in range(6)]  # pyright: ignore[reportOptionalMemberAccess]
    after = host.popen("session", "watch", key, "--after", journal[3]["cursor"], "--json")
    first_after = json.loads(after.stdout.readline())  # pyright: ignore[reportOptionalMemberAccess]
    host.run("session", "rename", key, "now")
    until_seen = json.loads(later.stdout.readline())  # pyright: ignore[reportOptionalMemberAccess]
    host.run("session", "delete", key)

    outs = [each.communicate(timeout=10)[0] for each in (human, programs, later, after)]
    assert [each.returncode for each in (human, programs, later, after)] == [0] * 4
    assert journal[0]["type"] == "session.created"
    assert first_after["cursor"] == journal[4]["cursor"]
    assert until_seen["type"] in ("session.updated", "session.status")
    assert "session.deleted" in outs[0]
    assert "before" in outs[0]
    assert "\x1b" not in outs[0]
    assert json.loads(outs[1].splitlines()[-1])["type"] == "session.deleted"


def test_ctrl_c_ends_watching_without_a_word(host: Installation, key: str) -> None:
    import signal

    host.run("session", "start", key, "--agent", "echo")
    watching = host.popen("session", "watch", key)
    assert "session.created" in watching.stdout.readline()  # pyright: ignore[reportOptionalMemberAccess]
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=5)

    assert (watching.returncode, err) == (130, "")


@pytest.mark.parametrize(
    "line", [("--version",), ("--help",), ("session", "message", "--help"), ("completion", "bash")]
)
def test_help_and_the_version_need_no_host(line: tuple[str, ...], alone: Installation) -> None:
    done = alone.run(*line)

    assert done.code == 0
    assert "antiphon" in done.out
    assert done.err == ""
    assert not alone.data.exists()


def test_a_line_without_a_command_gets_help_and_exit_code_2(alone: Installation) -> None:
    for line in ((), ("session",)):
        done = alone.run(*line)
        assert (done.code, done.out) == (2, "")
        assert "commands:" in done.err

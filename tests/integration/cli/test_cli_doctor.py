"""`antiphon doctor` finds what is wrong and says what to do."""

import json
import os

import apsw

from clientlab.running import Installation


def findings(alone: Installation, *more: str) -> dict[str, tuple[str, str]]:
    """What the doctor finds, by check: the level and what is said."""
    done = alone.run("doctor", "--json", *more)
    assert done.code == (0 if done.json["healthy"] else 1)
    return {each["check"]: (each["level"], f"{each['detail']} {each['advice']}") for each in done.json["findings"]}


def test_it_starts_and_makes_nothing(alone: Installation) -> None:
    assert findings(alone)["data directory"][0] == "ok"
    assert not alone.data.exists()


def test_a_healthy_host_has_no_findings_that_ask_for_anything(alone: Installation) -> None:
    alone.serve()

    found = findings(alone)

    assert {level for level, _ in found.values()} == {"ok"}
    assert {"data directory", "disk", "ready.json", "host", "agent echo"} <= set(found)
    human = alone.run("doctor").out
    assert all(line.startswith("ok ") for line in human.splitlines())


def test_open_directories_and_tokens_are_found(alone: Installation) -> None:
    alone.serve()
    alone.data.chmod(0o755)
    (alone.data / "ready.json").chmod(0o644)

    found = findings(alone)

    assert found["data directory"][0] == "warning"
    assert "chmod go-rwx" in found["data directory"][1]
    assert found["ready.json"][0] == "wrong"
    assert "chmod 600" in found["ready.json"][1]
    assert "-> chmod 600" in alone.run("doctor").out


def test_what_a_crash_left_is_found(alone: Installation) -> None:
    alone.serve()
    alone.kill()

    level, said = findings(alone)["ready.json"]

    assert level == "warning"
    assert "gone" in said
    alone.serve()


def test_a_ready_file_that_lies_or_is_damaged_is_found(alone: Installation) -> None:
    alone.data.mkdir(mode=0o700)
    ready = alone.data / "ready.json"
    ready.write_text(json.dumps({"url": "http://127.0.0.1:9", "pid": os.getpid(), "token": "t", "version": "1"}))
    assert findings(alone)["ready.json"][0] == "wrong"
    ready.write_text("{")
    assert "rm " in findings(alone)["ready.json"][1]
    ready.unlink()


def test_a_wrong_token_and_another_version_are_found(alone: Installation) -> None:
    alone.serve()
    assert "ANTIPHON_TOKEN" in findings(alone, "--token", "wrong")["host"][1]
    ready = json.loads((alone.data / "ready.json").read_text())
    (alone.data / "ready.json").write_text(json.dumps(ready | {"version": "0.0.0"}))

    assert findings(alone)["host version"][0] == "warning"


def test_a_host_that_could_not_start_is_told_with_its_last_words(alone: Installation) -> None:
    alone.data.mkdir(mode=0o700)
    (alone.data / "host.log").write_text("first\nantiphon: the reason\n")

    assert "the reason" in findings(alone)["host.log"][1]


def test_an_address_where_nobody_answers_is_found(alone: Installation) -> None:
    done = alone.run("doctor", "--url", "http://127.0.0.1:9")

    assert done.code == 1
    assert "127.0.0.1:9" in done.out


def test_what_is_damaged_in_the_store_is_found_and_mended(alone: Installation) -> None:
    alone.serve()
    alone.run("session", "message", "kept", "hello", "--agent", "echo")
    alone.stop()
    store = apsw.Connection(str(alone.data / "antiphon.db"))
    store.execute("UPDATE sessions SET state = x'00'").fetchall()
    store.close()

    level, said = findings(alone)["store"]
    assert level == "wrong"
    assert "its state is not what its journal says" in said
    assert "doctor --repair" in said

    mended = findings(alone, "--repair")
    assert mended["store"][0] == "ok"
    assert list(alone.data.glob("antiphon.db.before-repair-*"))
    alone.serve()
    assert "echo: hello" in alone.run("session", "transcript", "kept").out


def test_nothing_is_mended_while_a_host_runs(alone: Installation) -> None:
    alone.serve()
    level, said = findings(alone, "--repair")["store"]
    assert level == "wrong"
    assert "in use by another host" in said
    assert not list(alone.data.glob("*before-repair*"))

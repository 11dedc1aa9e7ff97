"""A command that finds no host starts one in the background; many at once start one."""

from e2e.driver import Host, together
from e2e.stores import ON_BOTH


@ON_BOTH
def test_ten_commands_at_once_start_exactly_one_host_and_all_are_answered(quiet_host: Host) -> None:
    words = [f"word {number}" for number in range(10)]
    session = ["session", "message", "telegram:42"]

    done = together(
        *[lambda word=word: quiet_host.cli(*session, word, "--agent", "echo", seconds=60) for word in words]
    )

    assert [(each.code, each.out) for each in done] == [(0, f"echo: {word}\n") for word in words]
    assert quiet_host.read_ready()
    assert quiet_host.serving() == {quiet_host.ready["pid"]}
    said = [line["text"] for line in quiet_host.transcript("telegram:42") if line["role"] == "user"]
    assert sorted(said) == sorted(words)


def test_a_host_in_the_background_outlives_the_command_that_started_it(quiet_host: Host) -> None:
    quiet_host.cli("session", "start", "desk", "--agent", "echo")
    quiet_host.read_ready()
    first = quiet_host.ready["pid"]

    done = quiet_host.cli("session", "message", "desk", "hello")

    assert (done.code, done.out) == (0, "echo: hello\n")
    quiet_host.read_ready()
    assert quiet_host.ready["pid"] == first


def test_no_start_forbids_it(quiet_host: Host) -> None:
    done = quiet_host.cli("session", "list", "--no-start")

    assert (done.code, done.out) == (5, "")
    assert not (quiet_host.data / "ready.json").exists()
    assert not quiet_host.serving()


def test_a_host_named_by_url_is_never_started(quiet_host: Host) -> None:
    elsewhere = {"ANTIPHON_URL": "http://127.0.0.1:9", "ANTIPHON_TOKEN": "unused"}

    done = quiet_host.cli("session", "list", env=elsewhere)

    assert (done.code, done.out) == (5, "")
    assert not quiet_host.serving()


@ON_BOTH
def test_a_ready_file_left_by_a_crash_does_not_hinder_the_next_command(quiet_host: Host) -> None:
    quiet_host.start().kill()
    assert (quiet_host.data / "ready.json").exists()

    done = quiet_host.cli("session", "message", "desk", "hello", "--agent", "echo")

    assert (done.code, done.out) == (0, "echo: hello\n")
    assert len(quiet_host.serving()) == 1

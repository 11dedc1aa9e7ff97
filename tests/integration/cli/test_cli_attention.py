"""Who needs a person is seen first."""

import pytest

from clientlab.running import Installation, until


@pytest.fixture
def busy(alone: Installation) -> Installation:
    """A host on which one session asks, one is stalled, one has failed, and others came after them."""
    alone.data.mkdir(mode=0o700)
    (alone.data / "antiphon.toml").write_text("[host]\nstall_after_s = 0.5\n")
    alone.serve()
    for key, text in (("failed", "[[fail no such luck]]"), ("stalls", "[[hold never]]"), ("asks", "[[ask May I?]]")):
        alone.run("session", "message", key, text, "--agent", "echo", "--no-wait")
    for number in range(3):
        alone.run("session", "message", f"fine{number}", "hello", "--agent", "echo")
    for key, status in (("failed", "errored"), ("stalls", "stalled"), ("asks", "asking")):
        until(
            lambda key=key, status=status: alone.run("session", "show", key, "--json").json["status"] == status, status
        )
    return alone


def test_status_and_list_show_who_needs_a_person(busy: Installation) -> None:
    shown = [line.split()[0] for line in busy.run("session", "list").out.splitlines()]
    assert shown[1:4] == ["asks", "stalls", "failed"]
    assert sorted(shown[4:]) == ["fine0", "fine1", "fine2"]
    short = busy.run("session", "list", "--limit", "2").out.splitlines()
    assert [line.split()[0] for line in short[1:]] == ["asks", "stalls"]
    assert busy.run("session", "list", "--refs").out.splitlines()[:3] == ["fine2", "fine1", "fine0"]

    told = busy.run("status", "--json").json["attention"]
    assert [(each["key"], each["status"]) for each in told] == [
        ("asks", "asking"),
        ("stalls", "stalled"),
        ("failed", "errored"),
    ]
    human = busy.run("status").out
    assert "asks: May I? (antiphon permission allow|deny perm_" in human
    listed = busy.run("session", "list", "--status", "stalled", "--json").json["items"]
    assert [each["key"] for each in listed] == ["stalls"]

    busy.release("never")
    until(lambda: busy.run("session", "show", "stalls", "--json").json["status"] == "idle", "the end of the turn")
    assert "stalls" not in busy.run("status").out

"""What a shell can offer."""

import pytest

from antiphon.cli.completing import offers


def asked(kind: str) -> list[str]:
    """A host that runs and knows these."""
    return {"session": ["telegram:42", "telegram:7", "other"], "agent": ["echo", "claude"]}[kind]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("se", ["session", "serve"]),
        ("session me", ["message"]),
        ("--json session sh", ["show"]),
        ("--data-dir x session sh", ["show"]),
        ("session show tele", ["telegram:42", "telegram:7"]),
        ("session show telegram:42 ", []),
        ("session message telegram:42 x --when-busy st", ["steer"]),
        ("session message telegram:42 x --when-busy=st", ["--when-busy=steer"]),
        ("session message k x --agent ", ["echo", "claude"]),
        ("session message k x --fi", ["--file"]),
        ("session message k x --file ", [":files"]),
        ("session import ", [":files"]),
        ("--data-dir ", [":dirs"]),
        ("session list --json --st", ["--status"]),
        ("session queue telegram:42 msg_1 ", []),
        ("completion ", ["bash", "zsh", "fish"]),
        ("agent check e", ["echo"]),
        ("nonsense ", []),
        ("session message k x --timeout ", []),
    ],
)
def test_the_word_that_is_typed_gets_what_fits(line: str, expected: list[str]) -> None:
    assert [word for word, _ in offers(line.split(" "), asked)] == expected


def test_commands_and_options_come_with_their_meaning() -> None:
    assert ("status", "Show how the host is.") in offers([""], asked)
    assert all(meaning for _, meaning in offers(["session", "message", "k", "--"], asked))

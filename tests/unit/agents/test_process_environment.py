"""What an agent sees of the host's environment."""

from antiphon.agents.environment import clean_environment, secrets_of
from antiphon.agents.pipes import Tail

HOST = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "LANG": "de",
    "LC_ALL": "C",
    "TZ": "UTC",
    "SSL_CERT_FILE": "/certs",
    "OPENAI_API_KEY": "sk-host",
    "DATABASE_URL": "postgres://secret",
    "ANTIPHON_TOKEN": "tok",
    "LD_PRELOAD": "evil.so",
}


def test_an_agent_sees_what_every_program_needs_and_no_secret_of_the_host():
    assert clean_environment(host=HOST) == {
        "PATH": "/bin",
        "HOME": "/home/me",
        "LANG": "de",
        "LC_ALL": "C",
        "TZ": "UTC",
        "SSL_CERT_FILE": "/certs",
    }


def test_what_the_configuration_adds_wins():
    environment = clean_environment({"PATH": "/opt/bin", "MY_API_KEY": "sk-own"}, host=HOST)
    assert environment["PATH"] == "/opt/bin"
    assert environment["MY_API_KEY"] == "sk-own"


def test_of_antiphons_own_names_only_the_documented_ones_get_through():
    told = {"ANTIPHON_SESSION_ID": "ses_1", "ANTIPHON_SESSION_KEY": "a:1", "ANTIPHON_TURN_ID": "turn_1"}
    environment = clean_environment(told | {"ANTIPHON_TOKEN": "x", "ANTIPHON_URL": "y"}, host={})
    assert environment == told


def test_secrets_are_told_by_their_names_and_the_session_key_is_none():
    environment = {
        "MY_API_KEY": "sk-123456",
        "github_token": "ghp_1",
        "DbPassword": "hunter2",
        "CLIENT_SECRET": "sk-123456-longer",
        "SHORT_KEY": "1",
        "ANTIPHON_SESSION_KEY": "telegram:42",
        "PATH": "/bin",
    }
    assert secrets_of(environment) == (b"sk-123456-longer", b"sk-123456", b"hunter2", b"ghp_1")


def test_a_tail_keeps_the_end_and_shows_no_secret():
    tail = Tail(20, [b"hunter2"])
    tail.feed(b"x" * 1000 + b" password hunter2 wrong")
    assert tail.text() == "ssword [redacted] wrong"


def test_a_secret_that_the_edge_of_the_tail_cuts_in_two_is_not_shown_in_part():
    for padding in range(64):
        tail = Tail(16, [b"abcdefghij"])
        tail.feed(b"." * 30)
        tail.feed(b"abcdefghij" + b"." * padding)
        shown = tail.text().replace("[redacted]", "").strip(".")
        assert shown == "", f"{shown!r} of the secret is shown after {padding} bytes"


def test_a_tail_holds_a_bounded_part_of_a_flood():
    tail = Tail(100)
    for number in range(10_000):
        tail.feed(f"line {number}\n".encode())
    assert tail.text().endswith("line 9998\nline 9999\n")
    assert len(tail.text()) <= 200


def test_bytes_that_are_not_utf_8_are_shown_as_replacements():
    tail = Tail(100)
    tail.feed(b"bad \xff byte")
    assert tail.text() == "bad \ufffd byte"

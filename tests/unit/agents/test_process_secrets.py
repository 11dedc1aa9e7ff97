"""What an agent writes to stderr is shown to people: whatever looks like a secret is not."""

import pytest

from antiphon.agents.pipes import Tail

SECRETS = {
    "a key of a well-known form": ("used sk-ant-REDACTED for it", "sk-ant"),
    "a token of a forge": ("remote: ghp_0123456789abcdefABCDEF0123456789abcd", "ghp_"),
    "a bearer": ("Authorization: Bearer abcDEF123456.xyz==", "abcDEF"),
    "a web token": ("got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3", "eyJ"),
    "a password in an address": ("postgres://user:pa55w0rd@db/x", "pa55w0rd"),
    "an assignment": ('API_KEY="abcdefgh1234"', "abcdefgh"),
    "a field": ("{'client_secret': 'abcdefgh1234'}", "abcdefgh"),
    "a private key": ("-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKC\nAQEA\n-----END PRIVATE KEY-----", "AQEA"),
}


@pytest.mark.parametrize(("text", "secret"), SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize("step", [1, 7, 4096])
def test_what_looks_secret_is_not_shown_however_it_arrives(text: str, secret: str, step: int) -> None:
    tail, data = Tail(8192), f"before {text}\nafter\n".encode()
    for start in range(0, len(data), step):
        tail.feed(data[start : start + step])

    shown = tail.text()
    assert secret not in shown
    assert "[redacted]" in shown
    assert shown.startswith("before ")
    assert shown.endswith("after\n")


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org:8080/path@x",
        "1234 tokens: 99 of 4096 used",
        "the token is good",
        "/usr/lib/python3/site-packages/secrets.py:12",
        "ключ и 秘密",
    ],
)
def test_ordinary_words_are_shown_as_they_are(text: str) -> None:
    tail = Tail(8192)
    tail.feed(text.encode())
    assert tail.text() == text


@pytest.mark.parametrize("cut", range(20))
def test_no_part_of_a_secret_at_the_edge_of_the_tail_is_shown(cut: int) -> None:
    tail = Tail(64)
    secret = "sk-ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    tail.feed(f"{'x' * 500} {secret} {'y' * (63 - cut)}".encode())
    assert not any(secret[start : start + 4] in tail.text() for start in range(len(secret) - 4))


@pytest.mark.parametrize("piece", [b"a", b"eyJaaaaaaaa.", b"-----BEGIN PRIVATE KEY-----", b"token=", b"://a:"])
def test_a_flood_made_to_be_hard_to_look_through_is_looked_through(piece: bytes) -> None:
    tail = Tail(8192)
    tail.feed(piece * 30_000)
    assert len(tail.text()) <= 8192 + len("[redacted]")

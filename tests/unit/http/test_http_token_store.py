"""Tokens: kept as digests only, in a private file that is whole at every moment."""

import stat
from pathlib import Path

import pytest

from antiphon.core.errors import InvalidRequest, NotFound, StoreUnavailable
from antiphon.http.token_store import TOKENS_MAX, TokenStore
from antiphon.system import SystemClock, SystemIds


def opened(path: Path) -> TokenStore:
    return TokenStore(path, SystemClock(), SystemIds())


async def test_a_token_is_known_again_after_a_restart_and_is_nowhere_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    token, secret = await opened(path).create("bot", "read")
    again = opened(path)
    assert again.match(secret) == token
    assert again.all() == (token,)
    assert secret not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["tokens.json"]


async def test_a_revoked_token_is_no_longer_known(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    store = opened(path)
    token, secret = await store.create("bot", "full")
    other, kept = await store.create("other", "full")
    await store.revoke(token.id)
    assert (store.match(secret), store.match(kept)) == (None, other)
    assert opened(path).all() == (other,)
    with pytest.raises(NotFound) as missing:
        await store.revoke(token.id)
    assert missing.value.code == "token_not_found"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"tokens": [{"id": 1}]}', b"\xff"])
def test_a_damaged_file_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tokens.json"
    path.write_bytes(content)
    with pytest.raises(StoreUnavailable):
        opened(path)
    assert path.read_bytes() == content


async def test_a_token_that_can_not_be_written_is_not_given_out(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    store = opened(directory / "tokens.json")
    directory.rmdir()
    with pytest.raises(StoreUnavailable):
        await store.create("bot", "full")
    assert store.all() == ()


async def test_there_are_only_so_many_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("antiphon.http.token_store.TOKENS_MAX", 2)
    assert TOKENS_MAX > 2
    store = opened(tmp_path / "tokens.json")
    await store.create("a", "full")
    await store.create("b", "full")
    with pytest.raises(InvalidRequest):
        await store.create("c", "full")


@pytest.mark.parametrize("secret", ["", "x", "é", "\ud800"])
def test_what_is_no_token_is_not_known(tmp_path: Path, secret: str) -> None:
    assert opened(tmp_path / "tokens.json").match(secret) is None

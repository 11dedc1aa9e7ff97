"""The tokens that let clients in, kept in a file of the data directory. Only their digests are kept."""

import asyncio
import contextlib
import hashlib
import os
import secrets
import tempfile
from pathlib import Path
from typing import Literal

import msgspec

from antiphon.core.errors import InvalidRequest, NotFound, StoreUnavailable
from antiphon.ports.clock import Clock
from antiphon.ports.ids import Ids

Scope = Literal["full", "read"]
TOKENS_MAX = 256
BROWSERS_MAX = 32
"""How many browsers stay signed in: the next one signs the oldest out."""
BROWSER_LIFE_S = 30 * 24 * 3600


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token that was given out. `sha256` is its digest in hex; the token itself is nowhere.

    Attributes:
        expires_at: From when on it is no longer valid; None for never.
        parent: The token that a browser was signed in with; None for the host's own. Revoking it revokes this one.
    """

    id: str
    name: str
    scope: Scope
    created_at: int
    sha256: str
    kind: Literal["token", "browser"] = "token"
    expires_at: int | None = None
    parent: str | None = None


class _File(msgspec.Struct, frozen=True, kw_only=True):
    version: int = 1
    tokens: tuple[Token, ...] = ()


def digest(secret: str) -> str:
    """What is kept of a token. Tokens are random and long, so one round of SHA-256 is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class TokenStore:
    """The tokens beside the host's own. A change is on disk before it is told."""

    def __init__(self, path: Path, clock: Clock, ids: Ids) -> None:
        """Read the tokens of an earlier start.

        Args:
            path: The file; it need not exist, its directory must.
            clock: For the time of creation.
            ids: For the tokens' ids.

        Raises:
            StoreUnavailable: The file is damaged or can't be read. It is left as it is.
        """
        self.clock = clock
        self._path, self._ids = path, ids
        self._changing = asyncio.Lock()
        self._keep(_read(path))

    def match(self, secret: str) -> Token | None:
        """The token that a client shows. Digests are looked up, so that time tells nothing of a token's letters."""
        token = self._by_digest.get(digest(secret)) if self._by_digest else None
        return token if token and self._lives(token) else None

    def holds(self, token_id: str) -> bool:
        """Whether a token that let somebody in is still valid."""
        return any(token.id == token_id for token in self.all())

    def all(self) -> tuple[Token, ...]:
        """Every valid token, oldest first."""
        return tuple(token for token in self._by_digest.values() if self._lives(token))

    def _lives(self, token: Token) -> bool:
        return token.expires_at is None or self.clock.now() < token.expires_at

    async def create(self, name: str, scope: Scope) -> tuple[Token, str]:
        """Give out a new token. The secret is returned here and never again.

        Raises:
            InvalidRequest: There are as many as the limit allows.
            StoreUnavailable: It can't be written.
        """
        async with self._changing:
            given = sum(token.kind == "token" for token in self.all())
            if given >= TOKENS_MAX:
                raise InvalidRequest(f"There are {TOKENS_MAX} tokens already. Revoke one that is no longer used.")
            token, secret = self._new(name, scope)
            await self._write((*self.all(), token))
        return token, secret

    async def admit_browser(self, name: str, scope: Scope, parent: str | None) -> tuple[Token, str]:
        """A token for one browser, for `BROWSER_LIFE_S`. The browsers that were signed in longest ago make room for it.

        Raises:
            StoreUnavailable: It can't be written.
        """
        async with self._changing:
            browsers = [token for token in self.all() if token.kind == "browser"]
            leaving = {token.id for token in browsers[: max(0, len(browsers) + 1 - BROWSERS_MAX)]}
            fresh, secret = self._new(name, scope)
            expires_at = fresh.created_at + BROWSER_LIFE_S * 1000
            token = msgspec.structs.replace(fresh, kind="browser", expires_at=expires_at, parent=parent)
            await self._write((*(each for each in self.all() if each.id not in leaving), token))
        return token, secret

    def _new(self, name: str, scope: Scope) -> tuple[Token, str]:
        secret = f"antiphon_{secrets.token_urlsafe(32)}"
        new_id, now = self._ids.new("tok"), self.clock.now()
        return Token(id=new_id, name=name, scope=scope, created_at=now, sha256=digest(secret)), secret

    async def revoke(self, token_id: str) -> None:
        """Let a token no longer be valid, nor the browsers that were signed in with it.

        Raises:
            NotFound: There is no such token.
            StoreUnavailable: It can't be written; the token is still valid.
        """
        async with self._changing:
            if not self.holds(token_id):
                raise NotFound("token", token_id)
            await self._write(tuple(token for token in self.all() if token_id not in (token.id, token.parent)))

    def _keep(self, tokens: tuple[Token, ...]) -> None:
        self._by_digest = {token.sha256: token for token in tokens}

    async def _write(self, tokens: tuple[Token, ...]) -> None:
        try:
            await asyncio.to_thread(_replace, self._path, msgspec.json.encode(_File(tokens=tokens)))
        except OSError as error:
            detail = f"The tokens can't be written ({error.strerror}). Look at the data directory's disk and mode."
            raise StoreUnavailable(detail) from error
        self._keep(tokens)


def _read(path: Path) -> tuple[Token, ...]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_File).tokens
    except FileNotFoundError:
        return ()
    except (OSError, msgspec.DecodeError) as error:
        detail = f"The tokens in {path.name} can't be read; the file was left as it is. Mend it or move it away."
        raise StoreUnavailable(detail) from error


def _replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, readable by its owner only, and on disk when this returns."""
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)

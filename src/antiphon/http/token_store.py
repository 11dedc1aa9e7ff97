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


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token that was given out. `sha256` is its digest in hex; the token itself is nowhere."""

    id: str
    name: str
    scope: Scope
    created_at: int
    sha256: str


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
        self._path, self._clock, self._ids = path, clock, ids
        self._changing = asyncio.Lock()
        self._keep(_read(path))

    def match(self, secret: str) -> Token | None:
        """The token that a client shows. Digests are looked up, so that time tells nothing of a token's letters."""
        return self._by_digest.get(digest(secret)) if self._by_digest else None

    def holds(self, token_id: str) -> bool:
        """Whether a token that let somebody in is still valid."""
        return any(token.id == token_id for token in self._by_digest.values())

    def all(self) -> tuple[Token, ...]:
        """Every token, oldest first."""
        return tuple(self._by_digest.values())

    async def create(self, name: str, scope: Scope) -> tuple[Token, str]:
        """Give out a new token. The secret is returned here and never again.

        Raises:
            InvalidRequest: There are as many as the limit allows.
            StoreUnavailable: It can't be written.
        """
        secret = f"antiphon_{secrets.token_urlsafe(32)}"
        async with self._changing:
            if len(self._by_digest) >= TOKENS_MAX:
                raise InvalidRequest(f"There are {TOKENS_MAX} tokens already. Revoke one that is no longer used.")
            token = Token(
                id=self._ids.new("tok"), name=name, scope=scope, created_at=self._clock.now(), sha256=digest(secret)
            )
            await self._write((*self.all(), token))
        return token, secret

    async def revoke(self, token_id: str) -> None:
        """Let a token no longer be valid.

        Raises:
            NotFound: There is no such token.
            StoreUnavailable: It can't be written; the token is still valid.
        """
        async with self._changing:
            rest = tuple(token for token in self.all() if token.id != token_id)
            if len(rest) == len(self._by_digest):
                raise NotFound("token", token_id)
            await self._write(rest)

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

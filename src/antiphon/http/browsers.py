"""What lets a browser in: the one-time codes of sign-in links, and the cookie that one is changed into."""

import secrets
from collections import OrderedDict

import msgspec

from antiphon.http.token_store import Scope, TokenStore, digest

CODE_LIFE_S = 60
CODES_MAX = 256


class Admission(msgspec.Struct, frozen=True):
    """What a code stands for: the scope, and the token it was asked for with; None for the host's own."""

    scope: Scope
    parent: str | None
    expires_at: int


class Codes:
    """The codes that were made and not used yet. They are kept in memory only, so they end with the host."""

    def __init__(self, tokens: TokenStore) -> None:
        self._tokens = tokens
        self._waiting: OrderedDict[str, Admission] = OrderedDict()

    def make(self, scope: Scope, parent: str | None) -> tuple[str, int]:
        """A new code, and when it expires (ms since the epoch). The oldest ones make room."""
        code, expires_at = secrets.token_urlsafe(32), self._tokens.clock.now() + CODE_LIFE_S * 1000
        self._waiting[digest(code)] = Admission(scope, parent, expires_at)
        if len(self._waiting) > CODES_MAX:
            self._waiting.popitem(last=False)
        return code, expires_at

    def spend(self, code: str) -> Admission | None:
        """What a code stands for, this once; None when it is unknown, used, too old, or its token was revoked."""
        found = self._waiting.pop(digest(code), None)
        if found is None or self._tokens.clock.now() >= found.expires_at:
            return None
        return found if found.parent is None or self._tokens.holds(found.parent) else None


def cookie_name(host: str) -> str:
    """The cookie's name. Cookies don't tell ports apart, so the name does: each host on a machine has its own."""
    port = host.rpartition(":")[2]
    return f"antiphon_{port}" if port.isascii() and port.isdecimal() else "antiphon"


def cookie_value(header: str, host: str) -> str | None:
    """The secret in a `Cookie` header; None where there is none of this host.

    Whatever else serves on this machine has its cookies in the same header, well formed or not.
    """
    wanted = cookie_name(host)
    for pair in header.split(";"):
        name, _, value = pair.strip().partition("=")
        if name == wanted:
            return value
    return None

"""Where a host is: its URL and the token that opens it."""

import re
from typing import NamedTuple

from antiphon.client.errors import HostNotReached

_URL = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[^\s/:?#@\[\]]+)(?::([0-9]{1,5}))?(/[^\s?#]*)?", re.IGNORECASE)


class Address(NamedTuple):
    """A host's address. `prefix` is the path that its own paths hang under, without a slash at its end."""

    secure: bool
    host: str
    port: int
    prefix: str
    token: str | None

    @classmethod
    def parse(cls, url: str, token: str | None) -> "Address":
        """The address that a URL names.

        Raises:
            HostNotReached: It is not a URL of the form `http[s]://HOST[:PORT][/PREFIX]`, or the token can't be sent.
        """
        found = _URL.fullmatch(url)
        if not found or not 0 < (port := int(found[3] or (443 if found[1].lower() == "https" else 80))) < 65536:
            raise HostNotReached(f"{url!r} is not a host's address: write it as http://HOST:PORT.")
        if token is not None and not (token.isascii() and token.isprintable() and token == token.strip()):
            raise HostNotReached("The token holds characters that no token has: look at how it was copied.")
        return cls(found[1].lower() == "https", found[2].strip("[]"), port, (found[4] or "").rstrip("/"), token)

    @property
    def authority(self) -> str:
        """`HOST:PORT`, as the `Host` header has it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL."""
        return f"{'https' if self.secure else 'http'}://{self.authority}{self.prefix}"

    def headers(self) -> dict[str, str]:
        """The headers that every request to this host carries."""
        return {"authorization": f"Bearer {self.token}"} if self.token else {}

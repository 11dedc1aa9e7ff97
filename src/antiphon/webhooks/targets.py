"""Where deliveries may go: URLs read, and addresses judged. Nothing here asks the network."""

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import urlsplit

URL_MAX = 2048
PORTS = {"https": 443, "http": 80}
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""The prefix under which translators reach all of IPv4 (RFC 6052 section 2.1)."""
LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
"""The one for translators of a network's own (RFC 8215), which may reach anything there."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Target(NamedTuple):
    """A URL in its parts: `path` is what stands in the request line."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def origin(self) -> str:
        """Scheme, host and port: what a receiver is told apart by."""
        return f"{self.scheme}://{self.named}:{self.port}"

    @property
    def named(self) -> str:
        """The host as a URL has it."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def authority(self) -> str:
        """What the header `Host` says."""
        return self.named if self.port == PORTS[self.scheme] else f"{self.named}:{self.port}"


def parse_url(url: str) -> Target:
    """The parts of a URL.

    Raises:
        ValueError: It is none that a delivery can go to; the error says why, without quoting it.
    """
    if len(url) > URL_MAX or not re.fullmatch(r"[!-~]+", url):
        raise ValueError(f"A webhook's URL has at most {URL_MAX} characters, all of them printable ASCII.")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("This is not a URL.") from None
    if parts.scheme not in PORTS or not host:
        raise ValueError("A webhook's URL begins with https:// (or http://, where that is allowed) and names a host.")
    if "@" in parts.netloc or "#" in url:
        raise ValueError("A webhook's URL has no user, password or fragment: what is delivered is signed instead.")
    if not re.fullmatch(r"[a-z0-9_.-]+|[0-9a-f:.]+", host):
        raise ValueError("The host of a webhook's URL is a name or an address.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Target(parts.scheme, host, PORTS[parts.scheme] if port is None else port, path)


def shown(url: str) -> str:
    """A URL as it is listed: what stands behind `?` may be a secret."""
    start, question, _ = url.partition("?")
    return f"{start}?…" if question else start


class Policy(NamedTuple):
    """Which targets are allowed.

    Attributes:
        networks: Addresses that are allowed although they are not public.
        http: Whether a URL may begin with http://.
    """

    networks: tuple[Network, ...] = ()
    http: bool = False

    def refusal_of(self, target: Target) -> str | None:
        """What is wrong with a URL as far as it shows by itself; None when its host has to be looked up."""
        if target.scheme == "http" and not self.http:
            return "Webhooks go to https:// unless the host's configuration has `allow_http = true` in [webhooks]."
        try:
            address = ipaddress.ip_address(target.host)
        except ValueError:
            return None
        return None if self.allows(address) else REFUSED

    def allows(self, address: Address) -> bool:
        """Whether an address may be connected to: it is public, or the configuration names it."""
        inner = embedded(address)
        if inner is not None:
            return self.allows(inner)
        if any(address in network for network in self.networks if network.version == address.version):
            return True
        return address.is_global and not _is_special(address)


REFUSED = (
    "The address is private, local or reserved. If it shall be reached, name it in `allowed_networks` in [webhooks] of"
    " the host's configuration."
)


def _is_special(address: Address) -> bool:
    """Whether an address that counts as global is none that a single public host can have."""
    if isinstance(address, ipaddress.IPv6Address) and (address.is_site_local or address in LOCAL_NAT64):
        return True
    return address.is_multicast or address.is_reserved or address.is_unspecified


def embedded(address: Address) -> Address | None:
    """The IPv4 address that an IPv6 address stands for, by whichever mechanism; None for any other."""
    if not isinstance(address, ipaddress.IPv6Address):
        return None
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)


def read_networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    """Networks such as `10.1.0.0/16`, or single addresses.

    Raises:
        ValueError: One is neither.
    """
    return tuple(ipaddress.ip_network(text) for text in texts)

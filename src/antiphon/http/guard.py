"""The guard: who may come in. It looks at `Host`, `Origin` and the token, and has routing look at the raw path."""

import hmac
import ipaddress
import re
from typing import NamedTuple

from starlette.types import ASGIApp, Receive, Scope, Send

from antiphon.core.errors import AntiphonError, Forbidden, Unauthorized
from antiphon.http import problems
from antiphon.http.browsers import cookie_value
from antiphon.http.call import PRINCIPAL
from antiphon.http.edge import Principal
from antiphon.http.token_store import TokenStore, digest

_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:\[\]/@\s]+)(?::\d{1,5})?")
_LOOKING = frozenset({"GET", "HEAD"})
NOBODY = Principal("nobody", "read")
_OWN_AFFAIRS = ("/v1/sign-out",)


def is_loopback(host: str) -> bool:
    """Whether a name or address stays on this machine."""
    if _is_address(host):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost" or host.endswith(".localhost")


class Hosts:
    """The names under which this host may be addressed.

    A page of another site that lets its own name lead to this machine (DNS rebinding) sends its own name as `Host`. So
    names are known ones: loopback ones, the address that was bound, and those of the configuration. The port may be
    another, for it says nothing about who asks, and forwarded ports differ.
    """

    def __init__(self, bound: str, names: tuple[str, ...]) -> None:
        """Allow names.

        Args:
            bound: The address or name that was bound. When it is not a loopback one, any address is allowed: no page
                can make an address its own name.
            names: Further names, such as that of a reverse proxy. A port in them does not matter.
        """
        self._names = {bound.lower(), *map(_name, names)} - {""}
        self._any_address = not is_loopback(bound)
        self._known: set[str] = set()

    def allow(self, authority: str) -> bool:
        """Whether a `Host` header may be served."""
        if authority in self._known:
            return True
        name = _name(authority)
        if not (is_loopback(name) or name in self._names or (self._any_address and _is_address(name))):
            return False
        if len(self._known) < 64:
            self._known.add(authority)
        return True


def _name(authority: str) -> str:
    """The name or address in `Host`, without its port; empty when it is none."""
    found = _AUTHORITY.fullmatch(authority)
    return found["host"].strip("[]").lower().rstrip(".") if found else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    """ASGI middleware that refuses whoever may not come in, before anything is read or routed.

    Under `/v1` a token is needed, as `Bearer` or in the cookie of a browser that was signed in; a token of scope `read`
    can only look. The pages beside it are open, `/metrics` only where the host is bound to a loopback address.

    Browsers send a cookie along whoever makes them ask, and count every port of a machine as the same site. So a
    request with a cookie must come from this host's own page: one that changes something says so in `Origin`, and any
    other in `Sec-Fetch-Site` (Fetch Metadata), where the browser sends it.

    It changes the scope in place: whoever calls it has made a copy.
    """

    def __init__(self, app: ASGIApp, *, token: str, tokens: TokenStore, hosts: Hosts, open_metrics: bool) -> None:
        self._app = app
        self._own = digest(token)
        self._tokens = tokens
        self._hosts = hosts
        self._open_metrics = open_metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["raw_path"].decode("latin-1")
        try:
            asking = _identify(scope)
            self._check_place(asking)
            scope[PRINCIPAL] = self._check_token(path, scope["method"], asking)
        except AntiphonError as error:
            await problems.refusal(error)(scope, receive, send)
            return
        scope["path"] = path
        if scope["method"] == "HEAD" and not path.startswith("/v1/"):
            scope["method"] = "GET"  # the server leaves out the body (RFC 9110 section 9.3.2)
        await self._app(scope, receive, send)

    def _check_place(self, asking: "_Asking") -> None:
        host, origin = asking.host, asking.origin
        if not self._hosts.allow(host):
            detail = "This name does not lead here. Use localhost, or add the name to the host's `allowed_hosts`."
            raise Forbidden(detail, host=host[:200])
        if origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
            raise Forbidden("Pages of another origin may not use this host.", origin=origin[:200])

    def _check_token(self, path: str, method: str, asking: "_Asking") -> Principal:
        if not (path.startswith("/v1/") or path == "/v1" or (path == "/metrics" and not self._open_metrics)):
            return NOBODY
        principal = self._signed_in(method, asking) if asking.authorization is None else self._shown(asking)
        if principal.scope == "read" and method not in _LOOKING and not (principal.browser and path in _OWN_AFFAIRS):
            raise Forbidden("This token may only look. Use one of scope `full`.", scope="read")
        return principal

    def _shown(self, asking: "_Asking") -> Principal:
        scheme, _, secret = (asking.authorization or "").partition(" ")
        principal = self._known(secret.strip()) if scheme.lower() == "bearer" else None
        if principal is None:
            raise Unauthorized("The token is not valid here. Perhaps it was revoked, or belongs to another host.")
        return principal

    def _signed_in(self, method: str, asking: "_Asking") -> Principal:
        """Whose browser it is. A cookie counts only in what this host's own page asks for."""
        secret = cookie_value(asking.cookie, asking.host) if asking.cookie else None
        if secret is None:
            raise Unauthorized(
                "A token is needed: send `Authorization: Bearer TOKEN`. `ready.json` holds the host's own."
            )
        token = self._tokens.match(secret)
        if token is None or token.kind != "browser":
            raise Unauthorized("This browser is no longer signed in. Sign in again: `antiphon open`.")
        looking = method in _LOOKING
        if asking.site not in (("same-origin", "none", None) if looking else ("same-origin", None)):
            raise Forbidden("Only the page of this host may use its cookie.")
        if not looking and asking.origin is None:
            raise Forbidden("Only the page of this host may use its cookie; it would have sent its `Origin`.")
        return Principal(token.name, token.scope, token.id, browser=True)

    def _known(self, secret: str) -> Principal | None:
        if hmac.compare_digest(digest(secret), self._own):
            return Principal("local", "full")
        token = self._tokens.match(secret)
        return Principal(token.name, token.scope, token.id) if token and token.kind == "token" else None


class _Asking(NamedTuple):
    """What a request says of where it comes from: each header's one value."""

    host: str
    origin: str | None
    authorization: str | None
    cookie: str | None
    site: str | None


_HEADERS = frozenset({b"host", b"origin", b"authorization", b"cookie", b"sec-fetch-site"})


def _identify(scope: Scope) -> _Asking:
    """The one `Host` of a request, and what else says who asks."""
    found: dict[bytes, str] = {}
    hosts = 0
    for name, value in scope["headers"]:
        if name in _HEADERS:
            hosts += name == b"host"
            text = value.decode("latin-1")
            # HTTP/2, or a proxy that speaks it, may send several cookie fields (RFC 9113 section 8.2.3)
            found[name] = f"{found[name]}; {text}" if name == b"cookie" and name in found else text
    if hosts != 1:
        raise Forbidden("A request names one `Host` (RFC 9112 section 3.2).")
    get = found.get
    return _Asking(found[b"host"], get(b"origin"), get(b"authorization"), get(b"cookie"), get(b"sec-fetch-site"))

"""The guard: who may come in. It looks at `Host`, `Origin` and the token, and has routing look at the raw path."""

import hmac
import ipaddress
import re

from starlette.types import ASGIApp, Receive, Scope, Send

from antiphon.core.errors import AntiphonError, Forbidden, Unauthorized
from antiphon.http import problems
from antiphon.http.call import PRINCIPAL
from antiphon.http.edge import Principal
from antiphon.http.token_store import TokenStore, digest

_AUTHORITY = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:\[\]/@\s]+)(?::\d{1,5})?")
_LOOKING = frozenset({"GET", "HEAD"})
NOBODY = Principal("nobody", "read")


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

    Under `/v1` a token is needed; a token of scope `read` can only look. The pages beside it are open, `/metrics` only
    where the host is bound to a loopback address.

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
            host, origin, authorization = _identify(scope)
            self._check_place(host, origin)
            scope[PRINCIPAL] = self._check_token(path, scope["method"], authorization)
        except AntiphonError as error:
            await problems.refusal(error)(scope, receive, send)
            return
        scope["path"] = path
        if scope["method"] == "HEAD" and not path.startswith("/v1/"):
            scope["method"] = "GET"  # the server leaves out the body (RFC 9110 section 9.3.2)
        await self._app(scope, receive, send)

    def _check_place(self, host: str, origin: str | None) -> None:
        if not self._hosts.allow(host):
            detail = "This name does not lead here. Use localhost, or add the name to the host's `allowed_hosts`."
            raise Forbidden(detail, host=host[:200])
        if origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
            raise Forbidden("Pages of another origin may not use this host.", origin=origin[:200])

    def _check_token(self, path: str, method: str, authorization: str | None) -> Principal:
        if not (path.startswith("/v1/") or path == "/v1" or (path == "/metrics" and not self._open_metrics)):
            return NOBODY
        if authorization is None:
            raise Unauthorized(
                "A token is needed: send `Authorization: Bearer TOKEN`. `ready.json` holds the host's own."
            )
        scheme, _, secret = authorization.partition(" ")
        principal = self._known(secret.strip()) if scheme.lower() == "bearer" else None
        if principal is None:
            raise Unauthorized("The token is not valid here. Perhaps it was revoked, or belongs to another host.")
        if principal.scope == "read" and method not in _LOOKING:
            raise Forbidden("This token may only look. Use one of scope `full`.", scope="read")
        return principal

    def _known(self, secret: str) -> Principal | None:
        if hmac.compare_digest(digest(secret), self._own):
            return Principal("local", "full")
        token = self._tokens.match(secret)
        return Principal(token.name, token.scope, token.id) if token else None


def _identify(scope: Scope) -> tuple[str, str | None, str | None]:
    """The one `Host` of a request, its `Origin`, its `Authorization`."""
    hosts: list[str] = []
    origin = authorization = None
    for name, value in scope["headers"]:
        if name == b"host":
            hosts.append(value.decode("latin-1"))
        elif name == b"origin":
            origin = value.decode("latin-1")
        elif name == b"authorization":
            authorization = value.decode("latin-1")
    if len(hosts) != 1:
        raise Forbidden("A request names one `Host` (RFC 9112 section 3.2).")
    return hosts[0], origin, authorization

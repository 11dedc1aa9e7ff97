"""One request, as the routes see it: names from its path, headers, query and body, each checked when asked for."""

import re
from collections.abc import Awaitable
from typing import TypeVar, cast
from urllib.parse import parse_qsl, unquote_to_bytes

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from antiphon.core.errors import InvalidRequest, NotFound
from antiphon.core.names import HOST_NAME, key_problem
from antiphon.host.service import Service
from antiphon.http import bodies, headers, presence
from antiphon.http.edge import Edge, Principal
from antiphon.http.forms import Query

Q = TypeVar("Q", bound=Query)
T = TypeVar("T")
F = TypeVar("F", bound=BaseModel)

PRINCIPAL = "antiphon.principal"
"""Where the guard leaves the principal in the scope."""

_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")


class Call(Request):
    """A request that has passed the guard; `edge` is what the app was made with."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, edge: Edge) -> None:
        super().__init__(scope, receive, send)
        self.edge = edge

    @property
    def service(self) -> Service:
        """The host behind the door."""
        return self.edge.service

    @property
    def principal(self) -> Principal:
        """Who asks."""
        return cast("Principal", self.scope[PRINCIPAL])

    def ref(self) -> str:
        """The session that the path names, by id or key.

        Raises:
            InvalidRequest: No session can be called that.
        """
        ref = self._segment("ref")
        if ref.startswith("ses_"):
            return self._id("session", ref)
        if problem := key_problem(ref):
            raise InvalidRequest(f"The path names no session. {problem}")
        return ref

    def id(self, kind: str) -> str:
        """The id in the path.

        Raises:
            NotFound: It does not even look like an id.
        """
        return self._id(kind, self._segment("id"))

    def host_name(self) -> str:
        """The name of a host in the path.

        Raises:
            NotFound: No host can be called that.
        """
        name = self._segment("name")
        if not HOST_NAME.fullmatch(name):
            raise NotFound("host", name)
        return name

    def _segment(self, name: str) -> str:
        """A segment of the path, decoded. Routing looks at the raw path (see the guard), so that a key may hold `/`."""
        raw: str = self.path_params[name]
        if "%" not in raw:
            return raw
        try:
            return unquote_to_bytes(raw).decode()
        except UnicodeDecodeError:
            raise InvalidRequest("The path is not percent-encoded UTF-8.") from None

    @staticmethod
    def _id(kind: str, name: str) -> str:
        if not _ID.fullmatch(name):
            raise NotFound(kind, name[: bodies.SHOWN_MAX])
        return name

    def query(self, form: type[Q]) -> Q:
        """The query string.

        Raises:
            InvalidRequest: A parameter is unknown, repeated or wrong; each is named.
        """
        try:
            pairs = parse_qsl(self.scope["query_string"].decode("ascii"), keep_blank_values=True, errors="strict")
        except ValueError:
            raise InvalidRequest("The query is not percent-encoded UTF-8.") from None
        given: dict[str, str | list[str]] = {}
        for name, value in pairs:
            if name in form.model_fields and form.model_fields[name].default == []:
                cast("list[str]", given.setdefault(name, [])).append(value)
            elif name in given:
                raise InvalidRequest(f"The parameter `{name[: bodies.SHOWN_MAX]}` was given more than once.")
            else:
                given[name] = value
        bodies.refuse_nul(given)
        try:
            return form.model_validate(given)
        except ValidationError as error:
            raise bodies.invalid(error, "query") from None

    async def raw_body(self, limit: int, seconds: float) -> bytes:
        """The body, at most `limit` bytes of it."""
        whole = self.scope.get("state", {}).get(bodies.WHOLE, False)
        declared = self.header("content-length")
        return await bodies.read(self.receive, declared, limit, None if whole else seconds)

    async def parsed(self, form: type[F]) -> F:
        """The body as a form. Raises what `bodies.read` and `bodies.parse` raise."""
        limits = self.edge.limits
        return bodies.parse(form, await self.raw_body(limits.body, limits.body_s))

    def wait_s(self) -> float | None:
        """How long the client prefers to wait; None for not at all."""
        values = self.header_values("prefer")
        return headers.preferred_wait_s(values, self.edge.limits.wait_s) if values else None

    async def while_present(self, wait: Awaitable[T]) -> T | None:
        """What `wait` gives, or None when the door closes first. Raises `presence.Left` when the client goes first."""
        return await presence.while_present(wait, self.scope, self.receive, self.edge.closing)

    def wants_events(self) -> bool:
        """Whether the client asks for an event stream."""
        return headers.wants_events(self.header_values("accept"))

    def header(self, name: str) -> str | None:
        """The first value of a header, whose name is given in lower case."""
        return next(iter(self.header_values(name)), None)

    def header_values(self, name: str) -> list[str]:
        """Every value of a header, whose name is given in lower case."""
        wanted = name.encode()
        return [value.decode("latin-1") for given, value in self.scope["headers"] if given == wanted]

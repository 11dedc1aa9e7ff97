"""Routes: handlers, with what they take and give as data, from which the OpenAPI document is made."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec
from starlette.responses import Response

from antiphon.http.call import Call
from antiphon.http.forms import Form, NoQuery, Query


class Handler(Protocol):
    """What carries a request out: a function, whose docstring is for whoever sends one."""

    __name__: str

    async def __call__(self, call: Call, /) -> Response: ...


class PageOf(msgspec.Struct, frozen=True):
    """A list of views, as `{items, next_cursor}`."""

    item: type


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """What a route takes and gives, from which the OpenAPI document is made.

    Attributes:
        body: The form of the body, or a schema where any object of a kind is taken; None for no body.
        query: The form of the query; None where it is not looked at.
        headers: Names of request headers, described in `antiphon.http.openapi`.
        answers: What each successful status answers: a view, a page, a media type, or None for an empty body.
        answer_headers: Names of headers of successful answers, described there too.
        stream: Whether `Accept: text/event-stream` gets events instead.
        refusals: The codes with which it may refuse, beside those with which every route may.
    """

    answers: Mapping[int, "type | PageOf | str | None"]
    body: "type[Form] | dict[str, Any] | None" = None
    query: type[Query] | None = NoQuery
    headers: tuple[str, ...] = ()
    answer_headers: tuple[str, ...] = ()
    stream: bool = False
    refusals: tuple[str, ...] = ()


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One route: where it is, what carries it out, and what is said of it."""

    method: str
    path: str
    handler: Handler
    told: Description
    tag: str

    @property
    def name(self) -> str:
        """The name of the operation, which is its handler's."""
        return self.handler.__name__

    @property
    def summary(self) -> str:
        """The first line of its handler's docstring."""
        return (self.handler.__doc__ or "").partition("\n")[0].strip().rstrip(".")

    @property
    def text(self) -> str:
        """The rest of the docstring, as one paragraph."""
        return " ".join((self.handler.__doc__ or "").partition("\n")[2].split())


class Group(list[Route]):
    """The routes of one resource."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self._tag = tag

    def route(self, method: str, path: str, description: Description) -> Callable[[Handler], Handler]:
        """Serve a path with the decorated handler."""

        def add(handler: Handler) -> Handler:
            self.append(Route(method=method, path=path, handler=handler, told=description, tag=self._tag))
            return handler

        return add

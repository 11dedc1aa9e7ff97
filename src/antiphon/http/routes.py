"""Routes: handlers, with what they take and give as data, from which the OpenAPI document is made."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from fastapi.routing import APIRoute
from starlette.responses import Response

from antiphon.http.call import Call
from antiphon.http.forms import Form, NoQuery, Query

Handler = Callable[[Call], Awaitable[Response]]


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


class Route(APIRoute):
    """One route. Its handler reads the request by itself, and the dispatcher calls it: FastAPI only describes it."""

    def __init__(self, method: str, path: str, handler: Handler, description: Description, tag: str) -> None:
        """Make a route of a handler. The first line of its docstring is the operation's summary, the rest its text."""
        summary, _, more = (handler.__doc__ or "").partition("\n")
        name = getattr(handler, "__name__", path)
        super().__init__(
            path,
            handler,
            methods=[method],
            response_model=None,
            name=name,
            operation_id=name,
            summary=summary.strip().rstrip("."),
            description=" ".join(more.split()),
            tags=[tag],
        )
        self.handler = handler
        self.told = description


class Group(list[Route]):
    """The routes of one resource."""

    def __init__(self, tag: str) -> None:
        super().__init__()
        self._tag = tag

    def route(self, method: str, path: str, description: Description) -> Callable[[Handler], Handler]:
        """Serve a path with the decorated handler."""

        def add(handler: Handler) -> Handler:
            self.append(Route(method, path, handler, description, self._tag))
            return handler

        return add

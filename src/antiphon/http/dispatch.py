"""From a raw path to its handler, and from what the handler raises to a problem document."""

import logging
from collections.abc import Iterable, Iterator

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from antiphon.core.errors import AntiphonError, TooLarge
from antiphon.http import problems
from antiphon.http.call import Call
from antiphon.http.edge import Edge
from antiphon.http.forms import NoQuery
from antiphon.http.presence import Left
from antiphon.http.refused_body import LingeringRefusal
from antiphon.http.routes import Route

log = logging.getLogger("antiphon.http")

CLIENT_LEFT = 499
"""The status of an answer that nobody is there to read; it is only ever seen in logs and metrics."""


class Dispatcher:
    """The ASGI app behind the guard: it finds the route, calls its handler and answers, whatever comes of it."""

    def __init__(self, routes: Iterable[Route], edge: Edge) -> None:
        self._edge = edge
        self._root = _Node()
        for route in routes:
            self._root.add(route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        response = await self._answer(scope, receive, send)
        await response(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> Response:
        try:
            route = self._find(scope)
            call = Call(scope, receive, send, self._edge)
            if scope["query_string"] and route.told.query is NoQuery:
                call.query(NoQuery)
            return await route.handler(call)
        except TooLarge as error:
            return LingeringRefusal(error, self._edge.limits.linger_s)
        except problems.MethodNotAllowed as error:
            return problems.refusal(error, {"allow": ", ".join(error.ids["allowed"])})
        except AntiphonError as error:
            return problems.refusal(error)
        except Left:
            return Response(status_code=CLIENT_LEFT)
        except Exception:  # the root of the request's task: it is answered, and the log says what happened
            log.exception("a request failed", extra={"action": "request_failed"})
            return problems.refusal(_INTERNAL)

    def _find(self, scope: Scope) -> Route:
        """The route of a request; what it was found by is left in the scope."""
        segments: list[str] = scope["path"].split("/")[1:]
        method: str = scope["method"]
        allowed: set[str] = set()
        for node in self._root.matching(segments, 0):
            if route := node.routes.get(method):
                scope["route"] = route
                scope["path_params"] = {name: segments[place] for place, name in node.names}
                return route
            allowed |= node.routes.keys()
        if not allowed:
            raise problems.NoRoute("Nothing is served under this path. `/docs` says what is.")
        served = sorted(allowed)
        detail = f"This is served for {', '.join(served)}, not for {method[:20]}."
        raise problems.MethodNotAllowed(detail, allowed=served)


_INTERNAL = problems.Internal("The host made a mistake; its log says which. Whatever was accepted before is safe.")


class _Node:
    """A place in the tree of paths, which a segment leads on from: a literal one, or any that is not empty."""

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}
        self.names: list[tuple[int, str]] = []
        self.literal: dict[str, _Node] = {}
        self.any_segment: _Node | None = None

    def add(self, route: Route) -> None:
        """Put a route at the place that its path leads to."""
        node, names = self, list[tuple[int, str]]()
        for place, segment in enumerate(route.path.split("/")[1:]):
            if segment.startswith("{"):
                names.append((place, segment.strip("{}")))
                node.any_segment = node.any_segment or _Node()
                node = node.any_segment
            else:
                node = node.literal.setdefault(segment, _Node())
        node.names = names
        node.routes[route.method] = route

    def matching(self, segments: list[str], place: int) -> "Iterator[_Node]":
        """Every place with routes to which the segments lead, the most literal first."""
        if place == len(segments):
            if self.routes:
                yield self
            return
        segment = segments[place]
        if node := self.literal.get(segment):
            yield from node.matching(segments, place + 1)
        if segment and self.any_segment:
            yield from self.any_segment.matching(segments, place + 1)

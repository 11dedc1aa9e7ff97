"""The app: routes, dispatcher, guard and telemetry put together."""

from functools import cache
from typing import Any, cast

from fastapi import FastAPI
from starlette.types import ASGIApp, Receive, Scope, Send

from antiphon import __version__
from antiphon.host.service import Service
from antiphon.http import openapi
from antiphon.http.dispatch import Dispatcher
from antiphon.http.edge import Edge, Limits
from antiphon.http.guard import Guard, Hosts, is_loopback
from antiphon.http.token_store import TokenStore
from antiphon.telemetry.metrics import Metrics
from antiphon.telemetry.requests import Watch


class App(FastAPI):
    """FastAPI's app as the keeper of the routes and their document, with a short way from a request to its handler.

    What FastAPI puts on that way serves its injection of dependencies, forms and files, of which nothing is used here;
    it costs more than all else that the door does (docs/decisions/030-http-edge.md).
    """

    def __init__(self, edge: Edge) -> None:
        super().__init__(title="antiphon", version=__version__, openapi_url=None, docs_url=None, redoc_url=None)
        self.router.routes.extend(openapi.ROUTES)
        self.state.edge = edge
        self.door: ASGIApp = Dispatcher(openapi.ROUTES, edge)
        self.openapi = cache(self.openapi)

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        return openapi.document()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        scope["app"] = self
        await self.door(scope, receive, send)


def create_app(
    service: Service,
    *,
    token: str,
    tokens: TokenStore,
    bound: str,
    allowed_hosts: tuple[str, ...] = (),
    limits: Limits | None = None,
    metrics: Metrics | None = None,
) -> App:
    """The host's door.

    Args:
        service: What the requests are carried out by.
        token: The host's own token, of scope `full`; the one in `ready.json`.
        tokens: The further tokens.
        bound: The address or name that the server is bound to. On a loopback one `/metrics` needs no token.
        allowed_hosts: Further names under which the host may be addressed, such as that of a reverse proxy.
        limits: How much, and for how long; the defaults when None.
        metrics: Where requests are counted; a fresh registry when None.
    """
    edge = Edge(service, tokens, limits or Limits(), metrics or Metrics())
    app = App(edge)
    guard = Guard(
        app.door, token=token, tokens=tokens, hosts=Hosts(bound, allowed_hosts), open_metrics=is_loopback(bound)
    )
    app.door = Watch(guard, metrics=edge.metrics)
    return app


def edge_of(app: FastAPI) -> Edge:
    """What an app of `create_app` was made with."""
    return cast("Edge", app.state.edge)

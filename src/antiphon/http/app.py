"""The app: routes, dispatcher, guard and telemetry put together."""

from functools import cache
from importlib import import_module
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from antiphon.errands import Errands
from antiphon.host.service import Service
from antiphon.http.dispatch import Dispatcher
from antiphon.http.edge import Edge, Limits
from antiphon.http.guard import Guard, Hosts, is_loopback
from antiphon.http.table import ROUTES
from antiphon.http.token_store import TokenStore
from antiphon.telemetry.metrics import Metrics
from antiphon.telemetry.requests import Watch


class App:
    """The ASGI app: a short way from a request to its handler, and the document that says what is served.

    Attributes:
        edge: What it was made with.
        door: The first thing that a request meets.
    """

    def __init__(self, edge: Edge) -> None:
        self.edge = edge
        self.door: ASGIApp = Dispatcher(ROUTES, edge)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self.door(scope, receive, send)


def create_app(
    service: Service,
    *,
    errands: Errands,
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
        errands: What those about webhooks and schedules are carried out by. Whoever made it starts and stops it.
        token: The host's own token, of scope `full`; the one in `ready.json`.
        tokens: The further tokens.
        bound: The address or name that the server is bound to. On a loopback one `/metrics` needs no token.
        allowed_hosts: Further names under which the host may be addressed, such as that of a reverse proxy.
        limits: How much, and for how long; the defaults when None.
        metrics: Where requests are counted; a fresh registry when None.
    """
    edge = Edge(service, errands, tokens, limits or Limits(), metrics or Metrics(), cache(_document))
    app = App(edge)
    guard = Guard(
        app.door, token=token, tokens=tokens, hosts=Hosts(bound, allowed_hosts), open_metrics=is_loopback(bound)
    )
    app.door = Watch(guard, metrics=edge.metrics)
    return app


def _document() -> dict[str, Any]:
    """The OpenAPI document. What makes it is slow to load, so it is loaded when a document is asked for."""
    return import_module("antiphon.http.openapi").document()

"""The app: routes, guard, telemetry and problem documents put together."""

from functools import cache
from typing import cast

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from antiphon import __version__
from antiphon.core.errors import AntiphonError, InvalidRequest, TooLarge
from antiphon.host.service import Service
from antiphon.http import openapi, problems
from antiphon.http.edge import Edge, Limits
from antiphon.http.guard import Guard, Hosts, is_loopback
from antiphon.http.presence import Left
from antiphon.http.refused_body import LingeringRefusal
from antiphon.http.routes import allowed_methods
from antiphon.http.token_store import TokenStore
from antiphon.telemetry.metrics import Metrics
from antiphon.telemetry.requests import Watch

CLIENT_LEFT = 499
"""The status of an answer that nobody is there to read; it is only ever seen in logs and metrics."""


def create_app(
    service: Service,
    *,
    token: str,
    tokens: TokenStore,
    bound: str,
    allowed_hosts: tuple[str, ...] = (),
    limits: Limits | None = None,
    metrics: Metrics | None = None,
) -> FastAPI:
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
    app = FastAPI(title="antiphon", version=__version__, openapi_url=None, docs_url=None, redoc_url=None)
    edge = Edge(service, tokens, limits or Limits(), metrics or Metrics())
    app.state.edge = edge
    app.router.redirect_slashes = False
    app.router.routes.extend(openapi.ROUTES)
    app.openapi = cache(openapi.document)
    app.add_exception_handler(AntiphonError, _refuse)
    app.add_exception_handler(HTTPException, _refuse_unrouted)
    app.add_exception_handler(Left, _left)
    app.add_exception_handler(Exception, problems.internal)
    hosts = Hosts(bound, allowed_hosts)
    app.add_middleware(Guard, token=token, tokens=tokens, hosts=hosts, open_metrics=is_loopback(bound))
    app.add_middleware(Watch, metrics=edge.metrics)
    return app


def edge_of(app: FastAPI) -> Edge:
    """What an app of `create_app` was made with."""
    return cast("Edge", app.state.edge)


def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, AntiphonError)
    if isinstance(error, TooLarge):
        return LingeringRefusal(error, edge_of(request.app).limits.linger_s)
    return problems.refusal(error)


def _refuse_unrouted(request: Request, error: Exception) -> Response:
    """What the router says of a path or a method that nothing serves."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        allowed = allowed_methods(request.app.router.routes, request.scope["path"])
        detail = f"This is served for {', '.join(allowed)}, not for {request.method[:20]}."
        return problems.refusal(problems.MethodNotAllowed(detail), {"allow": ", ".join(allowed)})
    if error.status_code == 404:
        return problems.refusal(problems.NoRoute("Nothing is served under this path. `/docs` says what is."))
    return problems.refusal(InvalidRequest("The request can't be understood."))


def _left(_request: Request, _error: Exception) -> Response:
    return Response(status_code=CLIENT_LEFT)

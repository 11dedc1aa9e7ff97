"""What every request meets at the door: the service behind it, who may come in, the limits, and the door's closing."""

from collections.abc import Callable
from typing import Any

import msgspec

from antiphon.errands import Errands
from antiphon.host.service import Service
from antiphon.http.browsers import Codes
from antiphon.http.presence import Ending
from antiphon.http.token_store import Scope, TokenStore
from antiphon.telemetry.metrics import Metrics


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much, and for how long. Sizes are bytes.

    Attributes:
        body: The largest body of a request.
        import_body: The largest body of an import.
        body_s: How long a body may take to arrive; an import has ten times as long.
        wait_s: The longest that `Prefer: wait` can wait.
        heartbeat_s: After how long of silence a viewer gets a sign of life.
        send_s: How long a viewer may refuse to read before its connection is cut.
        viewer: How much may wait for one viewer before its events are no longer read.
        linger_s: How long the rest of a refused body is read and thrown away.
        head: The largest head of a request.
        head_s: How long a head may take to arrive.
        idle_s: How long a connection may stay open between requests.
        connections: How many connections may be open at once.
    """

    body: int = 1 << 20
    import_body: int = 256 << 20
    body_s: float = 60.0
    wait_s: float = 3600.0
    heartbeat_s: float = 15.0
    send_s: float = 30.0
    viewer: int = 256 << 10
    linger_s: float = 2.0
    head: int = 64 << 10
    head_s: float = 30.0
    idle_s: float = 30.0
    connections: int = 2048


class Principal(msgspec.Struct, frozen=True):
    """Who asks: the name of the token, and what it may do. `token_id` is None for the host's own and for nobody.

    `browser` says that the token came in a cookie.
    """

    name: str
    scope: Scope
    token_id: str | None = None
    browser: bool = False


class Edge:
    """All that the routes need. One for each app.

    Attributes:
        service: What requests are carried out by.
        webhooks, schedules: What those about webhooks and schedules are carried out by.
        tokens: The tokens beside the host's own.
        codes: The codes of sign-in links.
        limits: How much, and for how long.
        metrics: Where requests are counted.
        document: Makes the OpenAPI document. The first call takes long enough to be made in a thread.
        closing: The closing of the door.
    """

    def __init__(
        self,
        service: Service,
        errands: Errands,
        tokens: TokenStore,
        limits: Limits,
        metrics: Metrics,
        document: Callable[[], dict[str, Any]],
    ) -> None:
        self.service = service
        self.webhooks = errands.webhooks
        self.schedules = errands.schedules
        self.tokens = tokens
        self.codes = Codes(tokens)
        self.limits = limits
        self.metrics = metrics
        self.document = document
        self.closing = Ending()

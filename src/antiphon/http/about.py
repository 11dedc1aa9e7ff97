"""The host itself: its agents, how it is, its metrics, its page and the documents about this door."""

import asyncio

from starlette.responses import Response

from antiphon.core.errors import Draining
from antiphon.host.service import HostStatus
from antiphon.host.views import AgentView, View
from antiphon.http import answers, html
from antiphon.http.call import Call
from antiphon.http.problems import NoRoute
from antiphon.http.routes import Description, Group, PageOf
from antiphon.telemetry import metrics
from antiphon.web import page

GROUP = Group("host")
HTML = "text/html"


class Health(View, frozen=True):
    """`ok`: the process answers."""

    status: str


@GROUP.route("GET", "/v1/agents", Description(answers={200: PageOf(AgentView)}))
async def list_agents(call: Call) -> Response:
    """List the agents that this host can run, what each can do, and what is missing."""
    return answers.whole(await call.service.agents())


@GROUP.route("GET", "/v1/status", Description(answers={200: HostStatus}))
async def show_status(call: Call) -> Response:
    """Show how the host is."""
    return answers.answer(await call.service.status())


@GROUP.route("GET", "/healthz", Description(query=None, answers={200: Health}))
async def show_health(_call: Call) -> Response:
    """Tell whether the process answers."""
    return answers.answer(Health(status="ok"))


@GROUP.route("GET", "/readyz", Description(query=None, answers={200: Health}, refusals=("draining",)))
async def show_readiness(call: Call) -> Response:
    """Tell whether the host takes messages: its store can be reached, and it is not shutting down."""
    status = await call.service.status()
    if status.draining or call.edge.closing.happened:
        raise Draining("The host is shutting down and takes nothing new. Try again once it was started again.")
    return answers.answer(Health(status="ok"))


@GROUP.route("GET", "/metrics", Description(query=None, answers={200: metrics.MEDIA_TYPE}))
async def show_metrics(call: Call) -> Response:
    """Show metrics, in Prometheus' text format.

    They need no token when the host is bound to a loopback address.
    """
    text = call.edge.metrics.render(await call.service.status())
    return Response(text, headers={"cache-control": "no-store"}, media_type=metrics.MEDIA_TYPE)


@GROUP.route("GET", "/openapi.json", Description(query=None, answers={200: "application/json"}))
async def show_openapi(call: Call) -> Response:
    """Show the OpenAPI 3.1 document of this door."""
    return answers.answer(await asyncio.to_thread(call.edge.document))


@GROUP.route("GET", "/docs", Description(query=None, answers={200: HTML}))
async def show_docs(call: Call) -> Response:
    """Show the OpenAPI document as a page to read."""
    document = await asyncio.to_thread(call.edge.document)
    return html.answer(await asyncio.to_thread(html.reference, document))


@GROUP.route("GET", "/", Description(query=None, answers={200: HTML}))
async def show_page(call: Call) -> Response:
    """Show the page: every session, and what is said in each."""
    if not page.built():
        return html.answer(page.index().content.decode())
    return _page_file(call, page.index(), {"content-security-policy": page.POLICY, "x-frame-options": "DENY"})


@GROUP.route("GET", "/assets/{id}", Description(query=None, answers={200: "text/javascript"}, refusals=("not_found",)))
async def show_page_asset(call: Call) -> Response:
    """Show a script, a style or a picture of the page."""
    found = page.assets().get(call.path_params["id"])
    if found is None:
        raise NoRoute("The page has no such file. Perhaps antiphon was updated: load the page again.")
    return _page_file(call, found, {"cross-origin-resource-policy": "same-origin"})


def _page_file(call: Call, file: page.File, headers: dict[str, str]) -> Response:
    """A file of the page. It is asked for each time, and sent when it is another one than the browser has."""
    told = {"cache-control": "no-cache", "etag": file.tag, "referrer-policy": "no-referrer", **headers}
    if file.tag in (call.header("if-none-match") or ""):
        return Response(status_code=304, headers=told)
    return Response(file.content, headers=told, media_type=file.media_type)

"""The OpenAPI 3.1 document of the door, made from the routes' descriptions, so that it says what is served.

`python -m antiphon.http.openapi` prints it.
"""

import sys
from collections.abc import Iterable
from typing import Any, get_args

import msgspec
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.json_schema import models_json_schema

from antiphon import __version__
from antiphon.core import words
from antiphon.core.names import HOST_NAME
from antiphon.host.service import HostStatus
from antiphon.host.views import (
    AgentView,
    Cancelled,
    EventView,
    HostView,
    PermissionView,
    Receipt,
    SessionView,
    TranscriptItem,
    TurnView,
)
from antiphon.http import about, problems, sign_in, sse, tokens
from antiphon.http.forms import (
    KEY_SCHEMA,
    AddSchedule,
    AddWebhook,
    AnswerPermission,
    CreateToken,
    EditMessage,
    ForkSession,
    Form,
    PatchSession,
    Query,
    ReorderQueue,
    SendMessage,
    SendOn,
    SignIn,
    StartSession,
)
from antiphon.http.routes import PageOf, Route
from antiphon.http.table import ROUTES
from antiphon.ports.outbox import DeliveryState
from antiphon.ports.timetable import MissedRun, Outcome, Overlap
from antiphon.schedules.desk import RunView, ScheduleView
from antiphon.webhooks.desk import DeliveryView, NewWebhookView, Retried, WebhookView

FORMS: tuple[type[Form], ...] = (
    StartSession,
    PatchSession,
    SendMessage,
    EditMessage,
    ForkSession,
    ReorderQueue,
    AnswerPermission,
    CreateToken,
    SignIn,
    AddWebhook,
    SendOn,
    AddSchedule,
)
VIEWS = (
    Receipt,
    SessionView,
    TurnView,
    PermissionView,
    TranscriptItem,
    EventView,
    AgentView,
    Cancelled,
    HostStatus,
    HostView,
    about.Health,
    tokens.TokenView,
    tokens.NewTokenView,
    sign_in.SignInLink,
    WebhookView,
    NewWebhookView,
    DeliveryView,
    Retried,
    ScheduleView,
    RunView,
)

DESCRIPTION = (
    "antiphon hosts agent sessions. A session is a named conversation with one agent; many clients talk to it, and the "
    "agent answers one turn at a time. A session is addressed by its id (`ses_…`) or by its percent-encoded key. Lists "
    "are `{items, next_cursor}`. Every refusal is a problem document (RFC 9457) with a stable `code`."
)

EVERYWHERE = ("unauthorized", "forbidden", "invalid_request", "internal")
"""Codes with which every route under `/v1` may refuse."""
WITH_BODY = ("message_too_large", "request_timeout")
WITH_STORE = ("store_unavailable",)

_WORDS: dict[str, dict[str, Any]] = {
    "Receipt": {"state": words.MessageState, "when_busy": words.WhenBusy, "delivered_as": words.Delivery},
    "SessionView": {"status": words.SessionStatus, "when_busy": words.WhenBusy},
    "TurnView": {"state": words.TurnState, "origin": words.Origin},
    "Cancelled": {"state": words.TurnState},
    "DeliveryView": {"state": DeliveryState},
    "ScheduleView": {"missed": MissedRun, "overlap": Overlap, "when_busy": words.WhenBusy},
    "RunView": {"outcome": Outcome},
}
"""Fields of views that hold one of a closed set of words."""

PARAMETERS: dict[str, dict[str, Any]] = {
    "Prefer": {
        "description": "`wait=S` (RFC 7240): how many seconds the answer may wait for the end.",
        "schema": {"type": "string"},
        "example": "wait=30",
    },
    "Idempotency-Key": {
        "description": "The same key with the same body is the same message, within a session.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    },
    "If-Match": {
        "description": 'The revision that is to be changed: `7` or `"7"`.',
        "schema": {"type": "string", "pattern": r'^(\*|[0-9]{1,15}|"[0-9]{1,15}")$'},
    },
    "Last-Event-ID": {
        "description": "The `id` of the last event that the viewer has seen; it counts more than `after`.",
        "schema": {"type": "string"},
    },
}

HEADERS: dict[str, dict[str, Any]] = {
    "Location": {"description": "Where the thing is found again.", "schema": {"type": "string"}, "required": True},
    "ETag": {"description": "The session's revision, for `If-Match`.", "schema": {"type": "string"}, "required": True},
    "Preference-Applied": {"description": "The wait that was honoured.", "schema": {"type": "string"}},
    "Content-Disposition": {"description": "A name for the file.", "schema": {"type": "string"}},
    "Retry-After": {"description": "After how many seconds to try again.", "schema": {"type": "integer"}},
    "Allow": {"description": "The methods that are served here.", "schema": {"type": "string"}},
    "WWW-Authenticate": {"description": "`Bearer`.", "schema": {"type": "string"}, "required": True},
}

PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": "Why something was refused (RFC 9457), with the ids concerned as further members.",
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "enum": list(problems.STATUSES)},
        "detail": {"type": "string", "description": "A sentence that a person can act on."},
    },
    "required": ["type", "title", "status", "code", "detail"],
}
EVENT_STREAM_SCHEMA: dict[str, Any] = {
    "type": "string",
    "description": (
        "Server-sent events, where `Accept` has `text/event-stream` among its types: `id` is the cursor, `event` the "
        "type, `data` an `EventView`."
    ),
}


def document(routes: Iterable[Route] = ROUTES) -> dict[str, Any]:
    """The whole document."""
    spec = _outline(routes)
    for route in routes:
        spec["paths"][route.path][route.method.lower()] |= _operation(route)
    spec["components"] = {
        "schemas": _schemas(),
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    }
    return spec


def _outline(routes: Iterable[Route]) -> dict[str, Any]:
    """The operations by path, with what is said of them."""
    described = [
        APIRoute(
            route.path,
            route.handler,
            methods=[route.method],
            response_model=None,
            name=route.name,
            operation_id=route.name,
            summary=route.summary,
            description=route.text,
            tags=[route.tag],
        )
        for route in routes
    ]
    return get_openapi(
        title="antiphon",
        version=__version__,
        openapi_version="3.1.0",
        description=DESCRIPTION,
        routes=described,
        servers=[{"url": "/"}],
    )


def _operation(route: Route) -> dict[str, Any]:
    """What an operation takes and gives."""
    told = route.told
    operation: dict[str, Any] = {
        "parameters": [*_path_parameters(route.path), *_query_parameters(told.query), *_headers(told.headers)],
        "responses": _successes(route) | _refusals(route),
    }
    if told.body is not None:
        schema = told.body if isinstance(told.body, dict) else _reference(told.body)
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    if route.path.startswith("/v1"):
        operation["security"] = [{"token": []}]
    return operation


def _path_parameters(path: str) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = []
    if "{ref}" in path:
        told = "A session's id, or its percent-encoded key."
        schema = {name: value for name, value in KEY_SCHEMA.items() if name != "not"}
        parameters.append({"name": "ref", "in": "path", "required": True, "description": told, "schema": schema})
    if "{id}" in path:
        schema = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,100}$"}
        parameters.append({"name": "id", "in": "path", "required": True, "schema": schema})
    if "{name}" in path:
        schema = {"type": "string", "pattern": f"^{HOST_NAME.pattern}$"}
        parameters.append({"name": "name", "in": "path", "required": True, "schema": schema})
    return parameters


def _query_parameters(query: type[Query] | None) -> list[dict[str, Any]]:
    if query is None:
        return []
    properties: dict[str, Any] = query.model_json_schema().get("properties", {})
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": schema.get("description", ""),
            "schema": _bare(schema),
        }
        for name, schema in properties.items()
    ]


def _bare(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter's schema. None is said by leaving it out, which no value can say."""
    options: list[dict[str, Any]] = [each for each in schema.get("anyOf", []) if each != {"type": "null"}]
    bare = {name: value for name, value in schema.items() if name not in ("anyOf", "title", "description")}
    if len(options) == 1:
        bare |= options[0]
    if bare.get("default", "") is None:
        del bare["default"]
    return bare


def _headers(names: tuple[str, ...]) -> list[dict[str, Any]]:
    return [{"name": name, "in": "header", "required": False, **PARAMETERS[name]} for name in names]


def _successes(route: Route) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, view in route.told.answers.items():
        response: dict[str, Any] = {"description": _SAID[status]}
        if view is not None:
            response["content"] = _content(view)
        if route.told.stream and status == 200:
            response.setdefault("content", {})[sse.MEDIA_TYPE] = {"schema": EVENT_STREAM_SCHEMA}
        if route.told.answer_headers:
            response["headers"] = {name: HEADERS[name] for name in route.told.answer_headers}
        responses[str(status)] = response
    return responses


_SAID = {200: "Done.", 201: "Made.", 202: "Accepted; the end is still to come.", 204: "Done."}


def _content(view: "type | PageOf | str") -> dict[str, Any]:
    if isinstance(view, str):
        return {view: {"schema": {"type": "object"} if view == "application/json" else {"type": "string"}}}
    schema = _page(view.item) if isinstance(view, PageOf) else _reference(view)
    return {"application/json": {"schema": schema}}


def _page(item: type) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": _reference(item)},
            "next_cursor": {"type": ["string", "null"], "description": "For the next page; null on the last."},
        },
        "required": ["items", "next_cursor"],
    }


def _refusals(route: Route) -> dict[str, Any]:
    """The problems of a route, by status."""
    codes = list(route.told.refusals)
    if route.path.startswith("/v1"):
        codes += EVERYWHERE
        codes += () if route.path in ("/v1/tokens", "/v1/sign-in-links") else WITH_STORE
        codes += WITH_BODY if route.told.body is not None else ()
    else:
        codes += ("forbidden", "internal", *(("unauthorized",) if route.path == "/metrics" else ()))
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys(codes):
        by_status.setdefault(problems.STATUSES[code], []).append(code)
    return {str(status): _problem(status, by_status[status]) for status in sorted(by_status)}


def _problem(status: int, codes: list[str]) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": "; ".join(f"{problems.TITLES[code]} (`{code}`)" for code in codes) + ".",
        "content": {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
    }
    if status == 401:
        response["headers"] = {"WWW-Authenticate": HEADERS["WWW-Authenticate"]}
    if any(code in problems.RETRY_AFTER_S for code in codes):
        response["headers"] = {"Retry-After": HEADERS["Retry-After"]}
    return response


def _reference(shape: type) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{shape.__name__}"}


def _schemas() -> dict[str, Any]:
    """Every shape by its name: forms from pydantic, views from msgspec, problems."""
    template = "#/components/schemas/{model}"
    _, forms = models_json_schema([(form, "validation") for form in FORMS], ref_template=template)
    _, views = msgspec.json.schema_components(VIEWS, ref_template="#/components/schemas/{name}")
    views: dict[str, Any] = msgspec.json.decode(
        msgspec.json.encode(views)
    )  # a default may be a tuple, which JSON lacks
    forms["$defs"].pop("JsonValue", None)
    schemas = {**forms["$defs"], **{name: _exact(name, schema) for name, schema in views.items()}}
    return {"ProblemDocument": PROBLEM_SCHEMA, **{name: schemas[name] for name in sorted(schemas)}}


def _exact(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """A view's schema, with what its types don't say: closed sets of words, and that times are RFC 3339."""
    for field, shape in schema["properties"].items():
        text = next((each for each in shape.get("anyOf", [shape]) if each.get("type") == "string"), None)
        if text is None:
            continue
        if field == "at" or field.endswith("_at"):
            text["format"] = "date-time"
        if field in _WORDS.get(name, {}):
            text["enum"] = list(get_args(_WORDS[name][field]))
    return schema


if __name__ == "__main__":
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document()), indent=2).decode() + "\n")

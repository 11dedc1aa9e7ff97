"""Answers: views of the host as JSON, encoded once and checked by nobody, for their types say what they hold."""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from antiphon.host.views import Page, Receipt, SessionView

ENDED = frozenset({"answered", "failed", "cancelled", "interrupted", "withdrawn"})
"""The states in which a message has its end."""

encode = msgspec.json.Encoder().encode

_NO_STORE = {"cache-control": "no-store"}


def answer(view: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A view as JSON."""
    return Response(encode(view), status, {**_NO_STORE, **headers} if headers else _NO_STORE, "application/json")


def whole(items: tuple[Any, ...]) -> Response:
    """A list that always fits on one page."""
    return answer(Page(items=items, next_cursor=None))


def nothing() -> Response:
    """Done, and nothing to tell."""
    return Response(status_code=204, headers=_NO_STORE)


def session(view: SessionView, status: int = 200, *, located: bool = False) -> Response:
    """A session, with its revision as its tag for `If-Match`."""
    headers = {"etag": f'"{view.revision}"'}
    if located:
        headers["location"] = f"/v1/sessions/{view.id}"
    return answer(view, status, headers)


def location(message_id: str) -> dict[str, str]:
    """The headers that lead to a message's receipt."""
    return {"location": f"/v1/messages/{message_id}"}


def receipt(view: Receipt, status: int = 200, *, applied: str | None = None) -> Response:
    """A receipt, with where to find it again, and the preference that was honoured."""
    headers = location(view.id)
    if applied is not None:
        headers["preference-applied"] = applied
    return answer(view, status, headers)

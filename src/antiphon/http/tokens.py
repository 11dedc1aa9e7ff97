"""Tokens: give out, list, revoke."""

from typing import Literal

from starlette.responses import Response

from antiphon.host.views import View, rfc3339
from antiphon.http import answers
from antiphon.http.call import Call
from antiphon.http.forms import CreateToken
from antiphon.http.routes import Description, Group, PageOf
from antiphon.http.token_store import Scope, Token

GROUP = Group("tokens")


class TokenView(View, frozen=True):
    """A token, but for its secret. One of kind `browser` is what a browser was signed in with."""

    id: str
    name: str
    scope: Scope
    created_at: str | None
    kind: Literal["token", "browser"]
    expires_at: str | None


class NewTokenView(View, frozen=True):
    """A token that was given out just now. `token` is its secret and is never shown again."""

    id: str
    name: str
    scope: Scope
    token: str
    created_at: str | None


def _view(token: Token) -> TokenView:
    return TokenView(
        id=token.id,
        name=token.name,
        scope=token.scope,
        created_at=rfc3339(token.created_at),
        kind=token.kind,
        expires_at=rfc3339(token.expires_at),
    )


@GROUP.route(
    "POST",
    "/v1/tokens",
    Description(body=CreateToken, answers={201: NewTokenView}, answer_headers=("Location",)),
)
async def create_token(call: Call) -> Response:
    """Give out a token.

    `full` may do everything, `read` may only look. The secret is in this answer and nowhere else.
    """
    form = await call.parsed(CreateToken)
    token, secret = await call.edge.tokens.create(form.name, form.scope)
    created_at = rfc3339(token.created_at)
    view = NewTokenView(id=token.id, name=token.name, scope=token.scope, token=secret, created_at=created_at)
    return answers.answer(view, 201, {"location": f"/v1/tokens/{token.id}"})


@GROUP.route("GET", "/v1/tokens", Description(answers={200: PageOf(TokenView)}))
async def list_tokens(call: Call) -> Response:
    """List the tokens that were given out, oldest first. The host's own is not among them."""
    return answers.whole(tuple(_view(token) for token in call.edge.tokens.all()))


@GROUP.route("DELETE", "/v1/tokens/{id}", Description(answers={204: None}, refusals=("token_not_found",)))
async def revoke_token(call: Call) -> Response:
    """Revoke a token; from now on it is refused."""
    await call.edge.tokens.revoke(call.id("token"))
    return answers.nothing()

"""Signing a browser in: a one-time code, made for whoever has a token, which the page changes into a cookie.

The code travels in the fragment of a link, which browsers send to nobody. The page takes it out of the address at once
and posts it; the answer sets a cookie that no script can read. The cookie holds a token of its own, kept like all
tokens by its digest: it outlives a restart of the host, is listed, and can be revoked.
"""

from starlette.responses import Response

from antiphon.core.errors import Forbidden, Unauthorized
from antiphon.host.views import View, rfc3339
from antiphon.http import answers
from antiphon.http.browsers import cookie_name
from antiphon.http.call import Call
from antiphon.http.forms import SignIn
from antiphon.http.routes import Description, Group
from antiphon.http.token_store import BROWSER_LIFE_S

GROUP = Group("tokens")
FRAGMENT = "/#sign-in="


class SignInLink(View, frozen=True):
    """A link that signs one browser in, once, while it is fresh. `path` goes behind the host's address."""

    path: str
    expires_at: str | None


def _cookie(call: Call, value: str, life_s: int) -> dict[str, str]:
    """The header that sets the cookie. Over TLS, which the page's origin shows, it never travels without."""
    secure = "; Secure" if (call.header("origin") or "").startswith("https:") else ""
    name = cookie_name(call.header("host") or "")
    return {"set-cookie": f"{name}={value}; Path=/; Max-Age={life_s}; HttpOnly; SameSite=Strict{secure}"}


def _with_cookie(call: Call, value: str, life_s: int) -> Response:
    answer = answers.nothing()
    answer.headers.update(_cookie(call, value, life_s))
    return answer


@GROUP.route("POST", "/v1/sign-in-links", Description(answers={201: SignInLink}))
async def make_sign_in_link(call: Call) -> Response:
    """Make a link that signs a browser in.

    It works once, within a minute, while this host runs. The browser may then do what this token may, for 30 days or
    until its token, or this one, is revoked.
    """
    code, expires_at = call.edge.codes.make(call.principal.scope, call.principal.token_id)
    return answers.answer(SignInLink(path=f"{FRAGMENT}{code}", expires_at=rfc3339(expires_at)), 201)


@GROUP.route("POST", "/sign-in", Description(body=SignIn, answers={204: None}, refusals=("unauthorized",)))
async def sign_in(call: Call) -> Response:
    """Sign in with a code: for the page, which does this by itself."""
    if call.header("origin") is None:
        raise Forbidden("Only the page of this host signs in.")
    form = await call.parsed(SignIn)
    spent = call.edge.codes.spend(form.code)
    if spent is None:
        raise Unauthorized("This link was used already, or is older than a minute. Make another: `antiphon open`.")
    _, secret = await call.edge.tokens.admit_browser("browser", spent.scope, spent.parent)
    return _with_cookie(call, secret, BROWSER_LIFE_S)


@GROUP.route("POST", "/v1/sign-out", Description(answers={204: None}))
async def sign_out(call: Call) -> Response:
    """Sign this browser out: its cookie goes, and the token that it held is revoked."""
    if not call.principal.browser or call.principal.token_id is None:
        raise Forbidden("Only a browser signs out. A token is revoked with `DELETE /v1/tokens/{id}`.")
    await call.edge.tokens.revoke(call.principal.token_id)
    return _with_cookie(call, "", 0)

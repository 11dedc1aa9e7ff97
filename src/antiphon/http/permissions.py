"""Permissions: what agents ask, and a person's answers."""

from starlette.responses import Response

from antiphon.host.views import PermissionView
from antiphon.http import answers
from antiphon.http.call import Call
from antiphon.http.forms import AnswerPermission, PermissionsQuery
from antiphon.http.routes import Description, Group, PageOf

GROUP = Group("permissions")
ONE = "/v1/permissions/{id}"


@GROUP.route(
    "GET",
    "/v1/permissions",
    Description(query=PermissionsQuery, answers={200: PageOf(PermissionView)}, refusals=("session_not_found",)),
)
async def list_permissions(call: Call) -> Response:
    """List permission requests; `state=pending` is the inbox."""
    query = call.query(PermissionsQuery)
    page = await call.service.permissions(state=query.state, ref=query.session, limit=query.limit, cursor=query.cursor)
    return answers.answer(page)


@GROUP.route("GET", ONE, Description(answers={200: PermissionView}, refusals=("permission_not_found",)))
async def show_permission(call: Call) -> Response:
    """Show a permission request."""
    return answers.answer(await call.service.permission(call.id("permission")))


@GROUP.route(
    "POST",
    ONE,
    Description(
        body=AnswerPermission,
        answers={200: PermissionView},
        refusals=("permission_not_found", "permission_answered", "session_conflict"),
    ),
)
async def answer_permission(call: Call) -> Response:
    """Answer a permission request.

    The first answer counts. Without `option_id` the agent's first option of the decision's kind is taken.
    """
    permission_id = call.id("permission")
    form = await call.parsed(AnswerPermission)
    view = await call.service.answer_permission(
        permission_id, decision=form.decision, option_id=form.option_id, note=form.note, by=call.principal.name
    )
    return answers.answer(view)

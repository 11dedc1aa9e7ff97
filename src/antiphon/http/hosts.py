"""The hosts that share the store: who they are, and which of them is to own no session."""

from starlette.responses import Response

from antiphon.host.views import HostView
from antiphon.http import answers
from antiphon.http.call import Call
from antiphon.http.routes import Description, Group, PageOf

GROUP = Group("hosts")
ROOT = "/v1/hosts"
_OF_HOST = Description(answers={200: HostView}, refusals=("host_not_found",))


@GROUP.route("GET", ROOT, Description(answers={200: PageOf(HostView)}))
async def list_hosts(call: Call) -> Response:
    """List the hosts that share this one's store, and how many sessions each owns.

    A host that was here within the last day is listed as `away`. Where the store can't be shared, this host is the
    only one.
    """
    return answers.answer(await call.service.hosts())


@GROUP.route("POST", f"{ROOT}/{{name}}/drain", _OF_HOST)
async def drain_host(call: Call) -> Response:
    """Have a host own no session: others take each of its sessions over as soon as no turn runs in it.

    It answers requests as before, and takes no session up until `undrain`, also after a restart.
    """
    return answers.answer(await call.service.drain_host(call.host_name(), drained=True))


@GROUP.route("POST", f"{ROOT}/{{name}}/undrain", _OF_HOST)
async def undrain_host(call: Call) -> Response:
    """Let a drained host own sessions again."""
    return answers.answer(await call.service.drain_host(call.host_name(), drained=False))

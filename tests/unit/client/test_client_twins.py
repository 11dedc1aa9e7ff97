"""The two clients are one: the same methods, arguments and words."""

import inspect
import subprocess
import sys
from typing import Any

import pytest

from antiphon.client import AsyncClient, Client

HEAVY = "antiphon.host anyio asyncio click dataclasses email fastapi http httpx2 msgspec pathlib pydantic ssl".split()


def public(kind: type[Any]) -> dict[str, Any]:
    """The public methods of a class."""
    return {name: member for name, member in vars(kind).items() if not name.startswith("_")}


def test_both_clients_have_the_same_methods_in_the_same_order() -> None:
    assert list(public(Client)) == list(public(AsyncClient))


@pytest.mark.parametrize("name", [name for name in public(Client) if name not in ("local", "close")])
def test_a_method_takes_the_same_arguments_and_says_the_same_in_both(name: str) -> None:
    sync, twin = public(Client)[name], public(AsyncClient)[name]

    assert inspect.signature(sync).parameters == inspect.signature(twin).parameters
    assert inspect.getdoc(sync) == inspect.getdoc(twin)


def test_the_sync_client_loads_nothing_heavy() -> None:
    code = "import sys, antiphon.client.sync, antiphon.client; print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert not set(HEAVY) & set(loaded)


def test_the_async_client_is_there_when_it_is_asked_for() -> None:
    code = "import sys, antiphon.client as c; assert 'httpx2' not in sys.modules; print(c.AsyncClient.__name__)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "AsyncClient\n"


def test_what_the_package_does_not_have_is_no_attribute_of_it() -> None:
    import antiphon.client

    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        _ = antiphon.client.nothing_of_that_name  # pyright: ignore[reportAttributeAccessIssue]

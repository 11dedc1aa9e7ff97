"""What all tests share. Async tests run on asyncio; every wait in them is bounded."""

import signal
import sys
from pathlib import Path

import pytest

COLLECTED = pytest.StashKey[set[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--antiphon` lets the end-to-end tests drive another installation, such as the built wheel's."""
    parser.addoption(
        "--antiphon",
        default=str(Path(sys.executable).with_name("antiphon")),
        help="the antiphon command that end-to-end tests run (default: the one beside this Python)",
    )


def pytest_configure() -> None:
    """Take signals as a terminal gives them: what `nohup` or a shell's `&` has set to be ignored, children inherit."""
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:  # these two Python itself ignores
        if signal.getsignal(number) is signal.SIG_IGN:
            interrupts = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if interrupts else signal.SIG_DFL)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the names of all tests, before any of them are deselected: the manifests are compared with them."""
    config.stash[COLLECTED] = {item.nodeid.partition("[")[0] for item in items}


@pytest.fixture(scope="session")
def collected_here(request: pytest.FixtureRequest) -> set[str]:
    """The names of the tests that this run found, without their parameters."""
    return request.config.stash[COLLECTED]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The event loop of async tests."""
    return "asyncio"


@pytest.fixture(scope="session")
def antiphon_command(request: pytest.FixtureRequest) -> str:
    """The absolute path of the command under test."""
    command = Path(str(request.config.getoption("--antiphon"))).absolute()
    assert command.exists(), f"no antiphon command at {command}: run `make setup`"
    return str(command)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data directory that does not exist yet, as on a first start."""
    return tmp_path / "data"

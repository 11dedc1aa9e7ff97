"""`antiphon agent check --fault-lab`: the contract suite of agents with one agent, and what came of each test."""

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from antiphon.agents.catalogue import build, kind_of
from antiphon.agents.environment import clean_environment
from antiphon.agents.loopback import Loopback, loopback_of
from antiphon.ports.agent import Agent, AgentSpec, Ended, Exited, Part, Text
from antiphon.testing.agent_check.outcome import Outcome
from antiphon.testing.agent_check.subject import Subject

SUITE = "antiphon.testing.agent_check.suite"
CONTRACT = "antiphon.testing.agent_contract"
SETTINGS = "[pytest]\nanyio_mode = auto\n"
STATES = {"passed": "ok", "failed": "failed", "skipped": "skipped"}
DETAIL_MAX = 4_000
SPEECHLESS = (
    "The suite looks in every answer for the word that it asked for, and this agent can't be made to say one. "
    "Try it with `antiphon agent check --loopback`."
)
WORD = "quince"
NOWHERE = "http://127.0.0.1:9"
"""The address of a model, where it only matters that there is one."""


def check(
    name: str, adapter: str, options: Mapping[str, Any], told: Callable[[Outcome], object], *, only: str = ""
) -> bool | None:
    """Put an agent through the suite, or through the tests of it whose names hold `only`.

    `told` hears of each test as it ends; the answer is whether none failed, and there was one.

    It is None for an agent that can't be made to say anything in particular: the suite looks for the words that it
    asked for.

    Raises:
        UnknownAdapter: There is no such adapter, or it does not take the options.
    """
    with tempfile.TemporaryDirectory(prefix="antiphon-lab-", ignore_cleanup_errors=True) as directory:
        pointed = loopback_of(kind_of(adapter, name), options, NOWHERE, Path(directory))
        agent = build(adapter, name, dict(pointed.options))
        missing = asyncio.run(agent.missing())
        if missing is not None:
            told(Outcome("installed", "failed", missing))
            return False
        if not (asyncio.run(_repeats(agent, pointed, directory)) if pointed.answers is None else pointed.answers):
            told(Outcome("says what it is asked to say", "skipped", SPEECHLESS))
            return None
        settings = Path(directory, "pytest.ini")
        settings.write_text(SETTINGS)
        places = [f"--rootdir={directory}", f"--basetemp={directory}/tests", "-c", str(settings)]
        quiet = ["-p", "no:terminal", "-p", "no:cacheprovider", "-W", "default"]
        listener = _Listener(Subject(name, adapter, options), told, only)
        pytest.register_assert_rewrite(CONTRACT)
        return pytest.main([*places, *quiet, "--pyargs", SUITE], plugins=[listener]) == pytest.ExitCode.OK


async def _repeats(agent: Agent, pointed: Loopback, directory: str) -> bool:
    """Whether it says a word that it is told; one that fails does not."""
    spec = AgentSpec(
        name=agent.name,
        session_id="ses_lab",
        cwd=directory,
        model=pointed.model,
        environment=clean_environment({"HOME": directory}),
        place=str(Path(directory, "place")),
    )
    running = await agent.open(spec, None)
    said: list[str] = []
    try:
        async with asyncio.timeout(pointed.patience_s):
            await running.prompt("turn_1", (Part(text=pointed.says(WORD)),))
            async for each in running.said():
                if isinstance(each, Text):
                    said.append(each.text)
                if isinstance(each, Ended | Exited):
                    break
    except TimeoutError:
        return False
    finally:
        await running.close(0)
    return WORD in "".join(said)


class _Listener:
    """A plugin that says who is tested, and hears what comes of it."""

    def __init__(self, subject: Subject, told: Callable[[Outcome], object], only: str) -> None:
        self._subject = subject
        self._told = told
        self._only = only

    @pytest.fixture
    def subject(self) -> Subject:
        """Who is tested."""
        return self._subject

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep what is wanted."""
        items[:] = [item for item in items if self._only in _words(item.name)]
        if not items:
            self._told(Outcome(self._only, "failed", "No test of the suite is called so."))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell of a test at its end, and of a set-up or tear-down only where that did not go right."""
        if report.when != "call" and report.passed:
            return
        self._told(Outcome(_words(report.nodeid.rpartition("::")[2]), STATES[report.outcome], _detail(report)))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Tell when the suite itself can't be read."""
        if report.failed:
            self._told(Outcome("the suite", "failed", report.longreprtext[-DETAIL_MAX:]))


def _words(name: str) -> str:
    """The name of a test as a sentence."""
    return name.removeprefix("test_").partition("[")[0].replace("_", " ")


def _detail(report: pytest.TestReport) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return report.longreprtext[-DETAIL_MAX:] if report.failed else ""

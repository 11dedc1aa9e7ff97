"""`antiphon agent check --fault-lab`: the contract suite of agents with one agent, and what came of each test."""

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from antiphon.agents.catalogue import build, kind_of
from antiphon.agents.loopback import loopback_of
from antiphon.testing.agent_check.outcome import Outcome
from antiphon.testing.agent_check.subject import Subject

SUITE = "antiphon.testing.agent_check.suite"
CONTRACT = "antiphon.testing.agent_contract"
SETTINGS = "[pytest]\nanyio_mode = auto\n"
STATES = {"passed": "ok", "failed": "failed", "skipped": "skipped"}
DETAIL_MAX = 4_000
SPEECHLESS = (
    "The suite looks in every answer for the word that it asked for, and this agent can't be made to say one: "
    "what its model says can't be known. Try it with `antiphon agent check --loopback`."
)
NOWHERE = "http://127.0.0.1:9"
"""The address of a model, where it only matters that there is one."""


def check(name: str, adapter: str, options: Mapping[str, Any], told: Callable[[Outcome], object]) -> bool | None:
    """Put an agent through the suite. `told` hears of each test as it ends; the answer is whether none failed.

    It is None for an agent that can't be made to say anything in particular: almost every test looks for a word.

    Raises:
        UnknownAdapter: There is no such adapter, or it does not take the options.
    """
    with tempfile.TemporaryDirectory(prefix="antiphon-lab-", ignore_cleanup_errors=True) as directory:
        pointed = loopback_of(kind_of(adapter, name), options, NOWHERE, Path(directory))
        missing = asyncio.run(build(adapter, name, dict(pointed.options)).missing())
        if missing is not None:
            told(Outcome("installed", "failed", missing))
            return False
        if not pointed.answers:
            told(Outcome("says what it is asked to say", "skipped", SPEECHLESS))
            return None
        settings = Path(directory, "pytest.ini")
        settings.write_text(SETTINGS)
        places = [f"--rootdir={directory}", f"--basetemp={directory}/tests", "-c", str(settings)]
        quiet = ["-p", "no:terminal", "-p", "no:cacheprovider", "-W", "default"]
        listener = _Listener(Subject(name, adapter, options), told)
        pytest.register_assert_rewrite(CONTRACT)
        return pytest.main([*places, *quiet, "--pyargs", SUITE], plugins=[listener]) == pytest.ExitCode.OK


class _Listener:
    """A plugin that says who is tested, and hears what comes of it."""

    def __init__(self, subject: Subject, told: Callable[[Outcome], object]) -> None:
        self._subject = subject
        self._told = told

    @pytest.fixture
    def subject(self) -> Subject:
        """Who is tested."""
        return self._subject

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tell of a test at its end, and of a set-up or tear-down only where that did not go right."""
        if report.when != "call" and report.passed:
            return
        name = report.nodeid.rpartition("::")[2].removeprefix("test_").partition("[")[0].replace("_", " ")
        self._told(Outcome(name, STATES[report.outcome], _detail(report)))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Tell when the suite itself can't be read."""
        if report.failed:
            self._told(Outcome("the suite", "failed", report.longreprtext[-DETAIL_MAX:]))


def _detail(report: pytest.TestReport) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return report.longreprtext[-DETAIL_MAX:] if report.failed else ""

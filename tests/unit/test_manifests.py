"""The lists of tests that stand behind promises and public reports name tests that exist. `*` in a name is anything."""

import ast
import fnmatch
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROMISES: dict[str, Any] = tomllib.loads((ROOT / "tests" / "promises.toml").read_text())
REPORTS: dict[str, Any] = tomllib.loads((ROOT / "tests" / "reports.toml").read_text())


@pytest.fixture(scope="module")
def collected(request: pytest.FixtureRequest, collected_here: set[str]) -> set[str]:
    """The names of all tests, without their parameters; where only some were asked for, a run of its own finds them."""
    if request.config.args == request.config.getini("testpaths"):
        return collected_here
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    return {line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line}


def missing(manifest: dict[str, Any], collected: set[str]) -> list[tuple[str, str]]:
    """The tests of a manifest that are nowhere, each with the entry that names it."""
    named = [(entry, test) for entry, held in manifest.items() for test in held.get("tests", [])]
    return [(entry, test) for entry, test in named if not fnmatch.filter(collected, test)]


def test_every_promise_of_the_documentation_has_tests() -> None:
    page = (ROOT / "docs" / "explanation" / "promises.md").read_text()
    assert set(re.findall(r"^\| (P\d+) \|", page, re.MULTILINE)) == set(PROMISES)
    assert not [promise for promise, entry in PROMISES.items() if not entry["tests"]]


@pytest.mark.timeout(320)
def test_every_test_of_a_promise_exists(collected: set[str]) -> None:
    assert not missing(PROMISES, collected)


def test_every_report_says_what_is_right_and_has_tests_or_says_that_it_has_none_yet() -> None:
    assert all(entry["input"] and entry["right"] for entry in REPORTS.values())
    assert not [report for report, entry in REPORTS.items() if bool(entry.get("tests")) == entry.get("open", False)]


@pytest.mark.timeout(320)
def test_every_test_of_a_report_exists(collected: set[str]) -> None:
    assert not missing(REPORTS, collected)


def test_every_test_that_names_a_report_stands_behind_it() -> None:
    names = {name: entry for first, entry in REPORTS.items() for name in (first, *entry.get("also", []))}
    unlisted: list[str] = []
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                told = re.split(r",\s*", ast.get_docstring(node) or "")
                test = f"{file.relative_to(ROOT)}::{node.name}"
                unlisted += [f"{name}: {test}" for name in told if test not in names.get(name, {}).get("tests", [test])]
    assert not unlisted

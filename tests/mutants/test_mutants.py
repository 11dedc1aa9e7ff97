"""The tests notice mistakes: each mutant makes one of them fail."""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from mutants.run import ROOT, TIMEOUT_S, Mutant, all_mutants, copied_source, environment, noticed, run_tests

MUTANTS = all_mutants()
Outcomes = dict[str, Future[str]]


@pytest.fixture(scope="session")
def outcomes(request: pytest.FixtureRequest) -> Iterator[Outcomes]:
    """What becomes of the mutants that are to be run, two at a time."""
    specs = [getattr(item, "callspec", None) for item in request.session.items]
    chosen = [spec.params["mutant"] for spec in specs if spec and "mutant" in spec.params]
    pool = ThreadPoolExecutor(2)
    try:
        yield {mutant.name: pool.submit(noticed, mutant) for mutant in chosen}
    finally:
        pool.shutdown(cancel_futures=True)


def test_every_mutant_still_fits_the_code_and_has_a_name_of_its_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    for mutant in MUTANTS:
        text = (ROOT / "src" / "antiphon" / mutant.file).read_text()
        assert mutant.spoilt(text) != text


def test_what_is_tested_is_the_copy() -> None:
    with copied_source() as source:
        command = [sys.executable, "-c", "import antiphon; print(antiphon.__file__)"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True, env=environment(source))
        assert Path(done.stdout).is_relative_to(source)


@pytest.mark.mutants
@pytest.mark.timeout(300)
def test_without_a_mistake_the_tests_pass() -> None:
    with copied_source() as source:
        done = run_tests(source, tuple(sorted({test for mutant in MUTANTS for test in mutant.tests})), timeout_s=280)
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.mutants
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mistake_is_noticed(mutant: Mutant, outcomes: Outcomes) -> None:
    assert outcomes[mutant.name].result(timeout=TIMEOUT_S + 20)

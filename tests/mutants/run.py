"""Put small mistakes into a copy of the source, one at a time, and see that the tests notice each.

    python tests/mutants/run.py [FILE.toml | NAME]...

A `.toml` file beside this one holds `tests`, the paths that are run unless a mutant names its own, and `[[mutant]]`
tables: `name`, `file` (below `src/antiphon`), `find` (found there exactly once), `replace`, and `why`, the promise that
would be broken.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TIMEOUT_S = 90
PLUGINS = ("anyio.pytest_plugin", "pytest_timeout", "_hypothesis_pytestplugin")
"""What the tests need; all that is installed would take longer to import than most tests to fail."""
FAILED_TESTS = 1
"""pytest's exit code when tests ran and some failed; a mutant that is not even importable gives another."""


@dataclass(frozen=True)
class Mutant:
    """A mistake, and the tests that have to notice it."""

    name: str
    file: str
    find: str
    replace: str
    why: str
    tests: tuple[str, ...]

    def spoilt(self, text: str) -> str:
        """The text of the file, with the mistake in it.

        Raises:
            ValueError: The code has changed so that the mistake no longer fits.
        """
        if text.count(self.find) != 1:
            raise ValueError(f"{self.name}: `find` is {text.count(self.find)} times in {self.file}, not once")
        return text.replace(self.find, self.replace)

    def put_into(self, source: Path) -> None:
        """Make the mistake in a copy of `src`."""
        path = source / "antiphon" / self.file
        path.write_text(self.spoilt(path.read_text()))


def mutants(file: Path) -> list[Mutant]:
    """The mutants that a file describes."""
    described = tomllib.loads(file.read_text())
    return [Mutant(**{"tests": described["tests"], **fields}) for fields in described["mutant"]]


def all_mutants() -> list[Mutant]:
    """The mutants of every file beside this one."""
    return [mutant for file in sorted(HERE.glob("*.toml")) for mutant in mutants(file)]


@contextmanager
def copied_source() -> Generator[Path, None, None]:
    """A copy of `src` that may be spoilt."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as directory:
        source = Path(directory) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        yield source


def environment(source: Path) -> dict[str, str]:
    """The environment in which the copy is what is imported."""
    quick = {"HYPOTHESIS_PROFILE": "mutants", "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return {**os.environ, **quick, "PYTHONPATH": str(source)}


def run_tests(source: Path, tests: tuple[str, ...], timeout_s: float = TIMEOUT_S) -> subprocess.CompletedProcess[str]:
    """Run tests on a copy until the first failure.

    Raises:
        subprocess.TimeoutExpired: They did not end in time.
    """
    options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider"]
    plugins = [option for plugin in PLUGINS for option in ("-p", plugin)]
    command = [sys.executable, "-m", "pytest", *options, *plugins, *tests]
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment(source),
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def noticed(mutant: Mutant) -> str:
    """How the tests noticed a mutant.

    Raises:
        AssertionError: They did not.
    """
    with copied_source() as source:
        mutant.put_into(source)
        try:
            done = run_tests(source, mutant.tests)
        except subprocess.TimeoutExpired:
            return f"the tests did not end within {TIMEOUT_S} s"
    assert done.returncode == FAILED_TESTS, f"{mutant.name} was not noticed: {mutant.why}\n{done.stdout[-2000:]}"
    return next((line[4:].strip() for line in done.stdout.splitlines() if line.startswith("E  ")), "a test failed")


def main(wanted: list[str]) -> int:
    """Run the wanted mutants, all by default, two at a time. 1 when one was not noticed."""
    chosen = [mutant for mutant in all_mutants() if not wanted or mutant.name in wanted]
    chosen += [mutant for name in wanted if name.endswith(".toml") for mutant in mutants(HERE / name)]
    survivors = 0
    with ThreadPoolExecutor(2) as pool:
        for mutant, outcome in zip(chosen, pool.map(_outcome, chosen), strict=True):
            survivors += isinstance(outcome, Exception)
            print(
                f"{'SURVIVED' if isinstance(outcome, Exception) else 'noticed '} {mutant.name}: {outcome}", flush=True
            )
    print(f"{len(chosen) - survivors} of {len(chosen)} noticed")
    return 1 if survivors else 0


def _outcome(mutant: Mutant) -> str | Exception:
    try:
        return noticed(mutant)
    except (AssertionError, ValueError) as error:
        return error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

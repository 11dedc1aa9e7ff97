"""The core does nothing but think: no I/O, no clock, no chance, no async."""

import subprocess
import sys

PROGRAM = """
import builtins, os, random, socket, sys, time, zoneinfo
zoneinfo.ZoneInfo("Europe/Berlin")  # the zones' table is data on disk, read once

import antiphon.core.reset, antiphon.core.step, antiphon.core.table
from models.life import AGENT, CLIENTS, OWNER, Life

late = [name for name in ("asyncio", "anyio", "threading", "sqlite3", "http", "logging", "subprocess", "ssl")
        if name in sys.modules and name not in before]
assert not late, f"imported: {late}"

def forbidden(*args, **kwargs):
    raise AssertionError("the core reached out")

choose = random.Random(1).randrange
for module in (os, socket, time, random):
    for name in dir(module):
        way_out = callable(getattr(module, name)) and not isinstance(getattr(module, name), type)
        if way_out and not name.startswith("_") and name != "strftime":  # with which datetime writes itself
            setattr(module, name, forbidden)
builtins.open = builtins.input = builtins.print = forbidden
for life in [Life(choose, lambda text: None) for _ in range(3)]:
    for number in range(400):
        acts = (CLIENTS, OWNER, AGENT)[choose(3)]
        acts[choose(len(acts))](life)
        life.check()
    life.end()
sys.stdout.write("pure")
"""
BEFORE = "import sys, msgspec, copy, zoneinfo, random, socket, os\nbefore = set(sys.modules)\n"


def test_the_core_decides_with_every_way_out_closed() -> None:
    command = [sys.executable, "-c", BEFORE + PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env={"PYTHONPATH": PATH})
    assert (done.stdout, done.returncode) == ("pure", 0), done.stderr


def test_the_core_imports_no_event_loop() -> None:
    program = "import sys, antiphon.core.step, antiphon.core.reset, antiphon.core.names, antiphon.core.times\n"
    program += "print([name for name in ('asyncio', 'anyio', 'selectors', 'socket', 'ssl') if name in sys.modules])"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env={"PYTHONPATH": PATH})
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


PATH = ":".join(path for path in sys.path if path)

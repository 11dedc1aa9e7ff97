"""`python -m benchmarks [--quick] [--only NAME]`: every figure, as a table, and in `build/bench.json`."""

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.command_line import command_line
from benchmarks.door import synchronous_message
from benchmarks.figures import Figure, as_table, write_json
from benchmarks.hosts import another_door, several_hosts
from benchmarks.scale import start_and_list, waking
from benchmarks.turns import durable_turns, many_sessions
from benchmarks.viewers import many_viewers
from benchmarks.views import opening

BENCHMARKS = {
    "turns": lambda root, quick: [durable_turns(root, quick=quick)],
    "many": lambda root, quick: [many_sessions(root, quick=quick)],
    "door": lambda root, quick: synchronous_message(root, quick=quick),
    "scale": lambda root, quick: start_and_list(root, quick=quick),
    "waking": lambda root, quick: [waking(root, quick=quick)],
    "viewers": lambda root, quick: many_viewers(root, quick=quick),
    "views": lambda root, quick: opening(root, quick=quick),
    "hosts": lambda root, quick: several_hosts(root, quick=quick),
    "another_door": lambda root, quick: [another_door(root, quick=quick)],
    "cli": lambda root, quick: command_line(root, quick=quick),
}


def main() -> int:
    """Measure; 1 when a bound is not kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, under two minutes")
    parser.add_argument("--only", action="append", choices=list(BENCHMARKS), help="only this one; may be repeated")
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"))
    parser.add_argument("--table", type=Path, help="write the table there too")
    options = parser.parse_args()
    figures: list[Figure] = []
    for name in options.only or BENCHMARKS:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as root:
            figures += BENCHMARKS[name](Path(root), options.quick)
    write_json(figures, options.json)
    table = as_table(figures)
    print(table)
    if options.table:
        options.table.write_text(table, encoding="utf-8")
    return 0 if all(figure.kept for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())

"""`make chaos`: injects faults into real processes and measures what the callers lose.

    python -m tests.chaos [--rows killed,restarted] [--runs 3] [--short] [--long]

Prints the scorecard, writes build/scorecard.json, and fails where a gate is missed. `--short` is the
form of `make test-all`; `--long` adds row 22 at its full length of twelve minutes, and the soak.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from searchbus_testing import watch_this_process

from .rows import LONG, ROWS
from .scorecard import Measurement, median, table, write

OUT = Path(__file__).parents[2] / "build" / "scorecard.json"


async def measure(name: str, *, short: bool) -> list[Measurement]:
    """Run one row in a folder of its own; a row that fails is a miss."""
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory(
        prefix="searchbus-chaos-", ignore_cleanup_errors=True
    ) as folder:
        try:
            found = await {**ROWS, **LONG}[name](Path(folder) / "fleet", short=short)
        except Exception:
            traceback.print_exc()
            found = [Measurement(name, "the row itself failed", 1, 0)]
    print(f"{name}: {time.monotonic() - started_s:.0f} s", file=sys.stderr, flush=True)
    return found


def main(arguments: Sequence[str]) -> int:
    """Run the rows; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(ROWS), help="names, separated by commas")
    parser.add_argument("--runs", type=int, default=1, help="the median of so many runs counts")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--long", action="store_true")
    given = parser.parse_args(arguments)
    names = [*given.rows.split(","), *(LONG if given.long else ())]
    unknown = [name for name in names if name not in {**ROWS, **LONG}]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}. Known: {', '.join({**ROWS, **LONG})}")
    if given.runs < 1:
        parser.error(f"--runs must be 1 or more, not {given.runs}")
    watch_this_process()
    runs = [
        [m for name in names for m in asyncio.run(measure(name, short=given.short))]
        for _ in range(given.runs)
    ]
    found = median(runs)
    form = "short" if given.short else "long" if given.long else "normal"
    write(OUT, found, runs=given.runs, form=form)
    print(table(found))
    missed = [m for m in found if not m.passed]
    print(f"{len(found) - len(missed)} of {len(found)} gates met; {OUT}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

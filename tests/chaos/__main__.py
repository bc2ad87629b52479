"""`make chaos`: injects faults into real processes and measures what the callers lose.

    python -m tests.chaos [--rows killed,restarted] [--runs 3] [--short] [--long]

Prints the scorecard, writes build/scorecard.json, and fails where a gate is missed. `--short` is the
form of `make test-all`; `--long` takes the median of three runs, and has the rows of minutes at their full
length: twelve minutes of scrapers, eighteen of one that is blocked for five of them, a minute without a NATS
server, a soak of twenty minutes. It takes almost two hours.

`--rows neighbours-flood` measures one way of the row `neighbours`.
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

from .rows import LONG, ONCE, PARTS, ROWS, Row
from .scorecard import Measurement, median, table, write

OUT = Path(__file__).parents[2] / "build" / "scorecard.json"


async def measure(name: str, row: Row, *, short: bool) -> list[Measurement]:
    """Run one row in a folder of its own; a row that fails is a miss."""
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory(
        prefix="searchbus-chaos-", ignore_cleanup_errors=True
    ) as folder:
        try:
            found = await row(Path(folder) / "fleet", short=short)
        except Exception:
            traceback.print_exc()
            found = [Measurement(name, "the row itself failed", 1, 0)]
    print(f"{name}: {time.monotonic() - started_s:.0f} s", file=sys.stderr, flush=True)
    return found


def main(arguments: Sequence[str]) -> int:
    """Run the rows; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default=",".join(ROWS), help="names, separated by commas")
    parser.add_argument("--runs", type=int, help="the median counts; 3 in the long form, else 1")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--short", action="store_const", dest="form", const="short")
    form.add_argument("--long", action="store_const", dest="form", const="long")
    given = parser.parse_args(arguments)
    long = given.form == "long"
    rows = {**(LONG if long else ROWS), **PARTS}
    names = given.rows.split(",")
    unknown = [name for name in names if name not in rows]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}. Known: {', '.join(rows)}")
    watch_this_process()
    found: list[Measurement] = []
    for name in names:
        count = 1 if long and name in ONCE else given.runs or (3 if long else 1)
        runs = [
            asyncio.run(measure(name, rows[name], short=given.form == "short"))
            for _ in range(count)
        ]
        found += median(runs)
        # After each row: what is measured is not lost where a later one is interrupted.
        write(OUT, found, form=given.form or "normal")
    print(table(found))
    missed = [m for m in found if not m.passed]
    print(f"{len(found) - len(missed)} of {len(found)} gates met; {OUT}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

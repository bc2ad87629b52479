"""`make bench`: measures, writes build/bench.json and renders docs/performance.md from it.

    python -m tests.bench [NAME …]     # of BENCHES below
    python -m tests.bench.report

With names only these run, and the page stays as it is until `report` renders it. Some need the
reference data beside the checkout and are skipped without it. Times are given as ratios to a
baseline of the same run, since machines differ and are noisy.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import traceback
from collections.abc import Coroutine, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from searchbus_testing import watch_this_process

from . import report
from .bars import Bar, bars_of
from .machine import machine
from .progress import progress

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT.parent / "shared"
OUT = ROOT / "build" / "bench.json"
LIMIT_S = 2 * 3600.0
"""Of one bench: one that hangs ends with a traceback that shows where."""
WITH_REFERENCE = (
    "cranfield fomc collections quantization latency passages ingest tools ddg tracing sizing"
).split()
WITHOUT_REFERENCE = (
    "python_docs toolindex web auth edge finding attach plans soak startup rest consoles"
).split()
BENCHES = (*WITH_REFERENCE, *WITHOUT_REFERENCE)
"""Modules beside this one, in their order: latency and collections search what fomc stored."""


def main() -> int:
    """Run, print, write; exit code 1 when a bench fails or misses a bar, 2 for an unknown name."""
    names = sys.argv[1:] or BENCHES
    unknown = set(names) - set(BENCHES)
    if unknown:
        sys.stderr.write(f"bench: unknown {sorted(unknown)}; there are {sorted(BENCHES)}\n")
        return 2
    watch_this_process()
    results: dict[str, Any] = {"machine": machine()}
    with tempfile.TemporaryDirectory(prefix="searchbus-bench-") as folder:
        failed = [name for name in names if not _run(name, Path(folder), results)]
    if not sys.argv[1:]:
        report.write(results)
        progress(f"rendered {report.PAGE.relative_to(ROOT)} from {OUT.relative_to(ROOT)}")
    bars = [bar for name in names for bar in bars_of(name, results.get(name, {}))]
    missed = [bar for bar in bars if bar.missed]
    sys.stdout.write(_table(missed) if missed else "no bar is missed\n")
    for bar in bars:
        if bar.value is None:
            sys.stdout.write(f"not measured: {bar.bench}, {bar.name}\n")
    for name in failed:
        sys.stdout.write(f"FAILED {name}\n")
    return 1 if missed or failed else 0


def _run(name: str, folder: Path, results: dict[str, Any]) -> bool:
    """Run a bench; false when it failed."""
    if name in WITH_REFERENCE and not REFERENCE.is_dir():
        progress(f"{name}: skipped, no reference data at {REFERENCE}")
        return True
    progress(f"{name}: begins")
    try:
        bench = import_module(f".{name}", __package__)
        results[name] = asyncio.run(_limited(bench.run(REFERENCE, folder)))
    except Exception:
        # The others are still worth their results; the exit code tells.
        traceback.print_exc()
        return False
    sys.stdout.write(f"--- {name}\n{json.dumps(results[name], indent=2)}\n")
    # After each bench: a run that is interrupted keeps what it has.
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(results, indent=2) + "\n")
    return True


async def _limited(bench: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """What a bench found; raises TimeoutError, whose traceback shows where it waited."""
    async with asyncio.timeout(LIMIT_S):
        return await bench


def _table(missed: Sequence[Bar]) -> str:
    lines = [("MISSED", "measurement", "value", "bar")]
    lines += [(bar.bench, bar.name, str(bar.value), f"{bar.sign} {bar.bar}") for bar in missed]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        + "\n"
        for line in lines
    )


if __name__ == "__main__":
    sys.exit(main())

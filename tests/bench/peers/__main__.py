"""`make bench PEERS=1`: searchbus beside other servers and gateways.

python -m tests.bench.peers            # measures: build/peers.json, and the page
python -m tests.bench.peers page       # renders the page again from docs/performance/peers.json
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from searchbus_testing import watch_this_process

from ..machine import machine
from . import page
from .comparison import Times, compare
from .environments import FOLDER
from .systems import ABSENT, GATEWAYS, RAW, RMCP, SERVED, bare

MEASURED = page.FOLDER / "peers.json"


def main() -> int:
    """Measure and render; exit code 1 where a bar is missed."""
    if sys.argv[1:] == ["page"]:
        page.write(json.loads(MEASURED.read_text()))
        return 0
    if sys.argv[1:]:
        sys.stderr.write(f"{' '.join(sys.argv[1:])!r} is not known. Give nothing, or: page\n")
        return 2
    watch_this_process()
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    with tempfile.TemporaryDirectory(prefix="searchbus-peers-") as folder:
        peers = [*SERVED, *GATEWAYS]
        found = asyncio.run(compare(RAW, RMCP, peers, bare, Path(folder), Times()))
    found = {"machine": machine(), "load before": load, **found}
    found["skipped"] |= ABSENT
    for path in (FOLDER.with_suffix(".json"), MEASURED):
        path.write_text(json.dumps(found, indent=1) + "\n")
    page.write(found)
    missed = [bar for bar in page.bars(found) if bar.missed]
    for bar in missed:
        sys.stdout.write(f"MISSED {bar.name}: {bar.value}, bar {bar.sign} {bar.bar}\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""A whole stack that nobody asks anything: its share of a core, and its memory.

The share is the CPU time of all threads over a minute; the memory is that which each process shares
with others, divided among them (PSS). Linux only.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from statistics import median
from typing import Any

from searchbus_testing import Stack, descendants

from .load import cpu_s
from .progress import progress

ROUNDS = 3
SETTLE_S, MEASURED_S = 75.0, 60.0
"""Models give their memory back a minute after the last text."""


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """Start a stack, wait until it rests, and look at its processes."""
    stack = Stack(workdir / "rest")
    await asyncio.to_thread(stack.start)
    try:
        assert stack.process is not None
        pids = [stack.process.pid, *(one.pid for one in descendants(stack.process.pid))]
        broker = stack.state["processes"]["nats"]
        await asyncio.sleep(SETTLE_S)
        shares, of_broker = [], []
        for _ in range(ROUNDS):
            before = {pid: cpu_s([pid]) for pid in pids}
            await asyncio.sleep(MEASURED_S)
            spent = {pid: cpu_s([pid]) - before[pid] for pid in pids}
            shares.append(sum(spent.values()) / MEASURED_S)
            of_broker.append(spent[broker] / MEASURED_S)
            progress(f"{shares[-1]:.2%} of a core")
        pss_mib = sum(map(_pss_mib, pids))
    finally:
        await asyncio.to_thread(stack.stop)
    return {
        "share of a core": round(median(shares), 5),
        "share of a core, the broker": round(median(of_broker), 5),
        "PSS MiB": round(pss_mib),
    }


def _pss_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024

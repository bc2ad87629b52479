"""What a gateway still has of its servers once they are removed, or its clients are gone.

(await left_of(pid, report, servers.ports, tasks_before=12, settle_s=60)).total
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import psutil

from searchbus_testing import descendants

from .watched import holdings


@dataclass(frozen=True, slots=True)
class Left:
    """Processes, connections to servers, and tasks beyond those at the start."""

    processes: int
    connections: int
    tasks: int

    @property
    def total(self) -> int:
        """Of all kinds."""
        return self.processes + self.connections + self.tasks


async def left_of(
    pid: int, report: Path, ports: Collection[int], *, tasks_before: int, settle_s: float
) -> Left:
    """What a process has, as soon as that is nothing, or after `settle_s`.

    Args:
        report: where the process writes its tasks on SIGUSR1, see watched.py.
        ports: of the servers at addresses.
    """
    process = psutil.Process(pid)
    end_s = time.monotonic() + settle_s
    while True:
        tasks = sum((await holdings(pid, report))["tasks"].values())
        peers = [c.raddr.port for c in process.net_connections("tcp") if c.raddr]
        found = Left(
            processes=len(descendants(pid)),
            connections=sum(port in ports for port in peers),
            tasks=max(0, tasks - tasks_before),
        )
        if not found.total or time.monotonic() > end_s:
            return found
        await asyncio.sleep(0.5)

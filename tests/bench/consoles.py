"""What open consoles cost the calls beside them: 20 event streams of operators at one edge.

Quiet and busy rounds alternate, so that the machine's noise meets both; the result is the median of
the ratios of neighbours.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from searchbus_contracts.headers import OPERATOR_ROLE
from searchbus_edge.auth.static_keys import KeyFile

from .edge import REVISIONS, Parts, running_parts
from .load import cpu_s, send

__all__ = ["run"]

CONSOLES = 20
ROUNDS = 9
REQUESTS = 2000
IN_FLIGHT = 4
_IDLE_S = 10.0


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """p99 of calls with and without open consoles, their ratio, and what an idle console costs."""
    folder = workdir / "consoles"
    async with running_parts(folder) as parts:
        key, _ = KeyFile(folder / "keys.json").add("operator", (OPERATOR_ROLE,))
        load = {**parts.request("tools/call", REVISIONS[1]), "in_flight": IN_FLIGHT,
                "count": REQUESTS}  # fmt: skip
        await send(load)
        await asyncio.sleep(2)  # the new key counts within a second
        quiet, busy = [], []
        for _ in range(ROUNDS):
            quiet.append((await send(load))["p99_s"])
            async with _consoles(parts, key, CONSOLES):
                busy.append((await send(load))["p99_s"])
        async with _consoles(parts, key, 1):
            before_s = cpu_s(parts.edge_pids)
            await asyncio.sleep(_IDLE_S)
            idle = (cpu_s(parts.edge_pids) - before_s) / _IDLE_S
    ratios = [one / other for one, other in zip(busy, quiet, strict=True)]
    return {
        "p99 with 20 consoles / without": round(statistics.median(ratios), 3),
        "p99 ms": round(1000 * statistics.median(quiet), 2),
        "p99 ms with 20 consoles": round(1000 * statistics.median(busy), 2),
        "share of a core, one idle console": round(idle, 4),
    }


@asynccontextmanager
async def _consoles(parts: Parts, key: str, count: int) -> AsyncIterator[None]:
    """Open consoles: each reads the live stream as the page does."""
    url = f"http://127.0.0.1:{parts.edge_port}/console/api/events"
    headers = {"Authorization": f"Bearer {key}"}
    async with AsyncExitStack() as stack:
        limits = httpx.Limits(max_connections=None)
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=None, limits=limits))
        for _ in range(count):
            answer = await stack.enter_async_context(http.stream("GET", url, headers=headers))
            answer.raise_for_status()
            lines = answer.aiter_lines()
            await anext(lines)
            reading = asyncio.ensure_future(_drain(lines))
            stack.callback(reading.cancel)
        await asyncio.sleep(1)
        yield


async def _drain(lines: AsyncIterator[str]) -> None:
    async for _ in lines:
        pass

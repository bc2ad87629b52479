"""What open consoles cost the calls beside them: 20 event streams of operators at one edge.

Quiet and busy rounds alternate, so that the noise of the machine meets both; the result is the
median of the ratios of neighbours. The p99 of one round varies threefold on a machine that does
other work: hence so many rounds, and the CPU of a call beside it.
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
from .progress import progress

CONSOLES = 20
ROUNDS = 25
REQUESTS = 1000
IN_FLIGHT = 4
_IDLE_S = 10.0
_ROUND_S = 120.0
"""Limit of one round, a hundred times what it takes."""


async def run(reference: Path, workdir: Path) -> dict[str, Any]:
    """p99 and CPU of calls with and without open consoles, and what an idle console costs."""
    folder = workdir / "consoles"
    async with running_parts(folder) as parts:
        key, _ = KeyFile(folder / "keys.json").add("operator", (OPERATOR_ROLE,))
        await _round(parts)
        await asyncio.sleep(2)  # the new key counts within a second
        quiet, busy = [], []
        for number in range(ROUNDS):
            async with asyncio.timeout(_ROUND_S):
                quiet.append(await _round(parts))
                async with _consoles(parts, key, CONSOLES):
                    busy.append(await _round(parts))
            progress(
                f"round {number + 1} of {ROUNDS}: p99 {quiet[-1][0]:.4f} s and {busy[-1][0]:.4f} s"
            )
        shares = {}
        for count in (0, 1, CONSOLES):
            async with asyncio.timeout(_ROUND_S), _consoles(parts, key, count):
                before_s = cpu_s(parts.edge_pids)
                await asyncio.sleep(_IDLE_S)
                shares[count] = (cpu_s(parts.edge_pids) - before_s) / _IDLE_S
    p99_ratios, cpu_ratios = (
        [one[part] / other[part] for one, other in zip(busy, quiet, strict=True)] for part in (0, 1)
    )
    return {
        "p99 with 20 consoles / without": round(statistics.median(p99_ratios), 3),
        "CPU of a call with 20 consoles / without": round(statistics.median(cpu_ratios), 3),
        "p99 ms": round(1000 * statistics.median(p99_s for p99_s, _ in quiet), 2),
        "p99 ms with 20 consoles": round(1000 * statistics.median(p99_s for p99_s, _ in busy), 2),
        "share of a core, no console": round(shares[0], 4),
        "share of a core, one idle console": round(shares[1] - shares[0], 4),
        "share of a core, 20 idle consoles": round(shares[CONSOLES] - shares[0], 4),
    }


async def _round(parts: Parts) -> tuple[float, float]:
    """p99 of calls, and the edge's CPU seconds for each."""
    before_s = cpu_s(parts.edge_pids)
    found = await send({**parts.request("tools/call", REVISIONS[1]), "in_flight": IN_FLIGHT,
                        "count": REQUESTS})  # fmt: skip
    return found["p99_s"], (cpu_s(parts.edge_pids) - before_s) / found["requests"]


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

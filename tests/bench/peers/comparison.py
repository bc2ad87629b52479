"""Measures all systems in turn, round by round, so that the machine's noise meets each alike."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from ..progress import progress
from . import scenarios
from .environments import NotInstalledError
from .system import Peer, Running, Starter

ALL, PACED = "all processes / raw", "paced, all processes / raw"
LIST, SLOW, KILLED, POISONED = "list", "slow", "killed", "poisoned"
FAULT_LIMIT_S = 600.0
"""Of one fault of one gateway; one that hangs is named, and the others are still measured."""


@dataclass(frozen=True)
class Times:
    """How long the parts take."""

    rounds: int = 3
    load_s: float = 1.0
    paced_s: float = 4.0
    killed_part_s: float = 1.5
    quick_calls: int = 30
    tools: int = 10_000


async def compare(
    raw: Peer, upstream: Peer, peers: Sequence[Peer], bare: Callable[..., Peer], folder: Path,
    times: Times,
) -> dict[str, Any]:  # fmt: skip
    """The figures of calls and of faults, by system, and what could not run.

    Args:
        raw: answers with fixed bytes; CPU is given in multiples of its.
        upstream: stands behind the gateways; `bare` where it cannot be installed.
        bare: makes the server that stands behind them for a fault.
    """
    skipped: dict[str, str] = {}
    systems: dict[str, tuple[Peer, Running, list[int]]] = {}
    async with AsyncExitStack() as stack:

        async def started(peer: Peer, port: int) -> Running | None:
            progress(f"peers: starting {peer.name} {peer.version}")
            try:
                return await peer.start(Starter(stack, folder / f"{port}-{peer.name}"), port)
            except NotInstalledError as error:
                progress(f"peers: skipped: {error}")
                skipped[peer.name] = str(error)
                return None

        behind = await started(upstream, 0)
        if behind is None:
            upstream = bare()
            behind = await upstream.start(Starter(stack, folder / "upstream"), 0)
        for peer in (raw, *peers):
            if running := await started(peer, behind.port):
                systems[peer.name] = peer, running, behind.all_pids() if peer.gateway else []
        rounds: list[dict[str, dict[str, float]]] = []
        for number in range(times.rounds):
            progress(f"peers: round {number + 1} of {times.rounds}, {len(systems)} systems")
            rounds.append({
                name: await scenarios.calls(running, pids, times.load_s, times.paced_s)
                for name, (_, running, pids) in systems.items()
            })  # fmt: skip
    faults = {}
    for peer in (
        Peer("no gateway", "", _nothing, gateway=True),
        *(p for p, *_ in systems.values()),
    ):
        if peer.gateway:
            progress(f"peers: faults behind {peer.name}")
            faults[peer.name] = await _faults(peer, bare, folder / f"faults-{peer.name}", times)
    rows = {
        name: {"version": peer.version, "own": peer.own, **row(name, raw.name, rounds)}
        for name, (peer, *_) in systems.items()
    }
    return {"upstream": upstream.name, "rounds": times.rounds, "systems": rows, "faults": faults,
            "skipped": skipped}  # fmt: skip


def row(
    name: str, raw: str, rounds: Sequence[Mapping[str, Mapping[str, float]]]
) -> dict[str, float]:
    """Medians over the rounds; ratios are made within a round."""
    found = {key: statistics.median(r[name][key] for r in rounds) for key in rounds[0][name]}
    for ratio, key in ((ALL, "CPU us"), (PACED, "paced CPU us")):
        found[ratio] = statistics.median(r[name][key] / r[raw][key] for r in rounds)
    rates = [r[name]["calls/s"] for r in rounds]
    found["calls/s max / min"] = max(rates) / min(rates)
    return {key: round(value, 3) for key, value in found.items()}


async def _nothing(_: Starter, upstream: int) -> Running:
    """No gateway: its callers speak to the upstream."""
    return Running(upstream, ())


async def _faults(
    peer: Peer, bare: Callable[..., Peer], folder: Path, times: Times
) -> dict[str, dict[str, Any]]:
    """What each fault leaves; where a gateway does not even start, the reason."""
    found: dict[str, dict[str, Any]] = {}
    for upstream, *faults in (
        (bare(times.tools), LIST), (bare(), SLOW, KILLED), (bare(3, "poisoned"), POISONED)
    ):  # fmt: skip
        place = folder / faults[0]
        async with AsyncExitStack() as stack:
            try:
                server = await upstream.start(Starter(stack, place / "upstream"), 0)
                again = Starter(stack, place / "again", server.port)
                async with asyncio.timeout(FAULT_LIMIT_S):
                    running = await peer.start(Starter(stack, place / "gateway"), server.port)
                    for fault in faults:
                        found[fault] = await _fault(fault, running, server, again, upstream, times)
            except (RuntimeError, httpx.HTTPError, AssertionError, TimeoutError) as error:
                text = f"{type(error).__name__}: {error}".strip().splitlines()[-1][:200]
                found |= {fault: {"not measured": text} for fault in faults if fault not in found}
    return found


async def _fault(
    fault: str, running: Running, server: Running, again: Starter, upstream: Peer, times: Times
) -> dict[str, Any]:
    def kill() -> None:
        process = psutil.Process(server.pids[0])
        process.kill()
        process.wait()

    async def restart() -> float:
        await upstream.start(again, 0)
        return time.perf_counter()

    if fault == LIST:
        return await scenarios.listing(running, server.all_pids())
    if fault == SLOW:
        return await scenarios.slow(running, times.quick_calls)
    if fault == KILLED:
        return await scenarios.killed(running, kill, restart, times.killed_part_s)
    return await scenarios.poisoned(running)

"""Twenty attached servers, one of which is hostile in each of its ways in turn, while the others are called.

What each way did is printed as soon as it is known. `--rows neighbours-flood,neighbours-hang-url` measures
these ways alone.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from searchbus_bus import Bus, connect
from searchbus_testing import until

from .client import Client, Outcome, counts
from .fleet import READY_S, ROOT, Fleet, rss_mib
from .rows_attach import qualified, status_of, toml
from .scorecard import Measurement, at_most

NAME = "neighbours"
PROGRAMS = ROOT / "services" / "attach" / "tests" / "programs"
GOOD = [f"good{number}" for number in range(19)]
COMMANDS = (
    "none",
    "flood",
    "giant",
    "values",
    "slow",
    "garbage",
    "schema",
    "logs",
    "events",
    "hang",
    "crash",
    "forks",
    "spins",
)
URLS = ("giant", "values", "logs", "events", "cookies", "redirects", "hang")
"""The first one is not hostile: its ratios say how much they vary on this machine."""
WAYS = (*COMMANDS, *(f"{way}-url" for way in URLS))
_SHORT = ("flood", "giant", "hang", "values-url", "hang-url")
"""Each way is a test of services/attach/tests/test_neighbours.py."""
RATE_PER_S = 100.0
ROUNDS, CALLS = 5, 400
WAY_S = 300.0
"""Of one way; ten times what it takes on two CPUs. After that it is a miss, and the next one begins."""


async def neighbours(folder: Path, *, short: bool, ways: Sequence[str] = WAYS) -> list[Measurement]:
    """What the others notice of it.

    Quiet and hostile rounds take turns, and the ratios of their medians count: the machine is not
    equally busy all the time.
    """
    rounds, calls = (1, 200) if short else (ROUNDS, CALLS)
    ways = _SHORT if short and ways == WAYS else ways
    measured: list[Measurement] = []
    async with Fleet(folder) as fleet:
        setup = await _Setup.start(fleet, short=short)
        for way in ways:
            try:
                async with asyncio.timeout(WAY_S):
                    found = [await setup.round(way, calls) for _ in range(rounds)]
                new = _measured(way, found, rounds * calls, setup.first_mib)
            except TimeoutError:
                new = [at_most(NAME, f"{way}: it did not end", 1, 0)]
            for one in new:
                print(f"{one.name}: {one.value:.3g}, {one.outcome}", file=sys.stderr, flush=True)
            measured += new
        await setup.close()
    return measured


def _measured(way: str, found: list[_Round], calls: int, first_mib: float) -> list[Measurement]:
    return [
        at_most(NAME, f"{way}: failed of {calls} calls of the others",
                sum(one.failed for one in found), 0),
        at_most(NAME, f"{way}: their p99 / that of quiet rounds between",
                _ratio([one.p99_s for one in found]), 2, "x"),
        at_most(NAME, f"{way}: CPU time of the service for them / that of quiet ones",
                _ratio([one.cpu_s for one in found]), 4, "x"),
        at_most(NAME, f"{way}: memory of the service / that before all",
                max(one.mib for one in found) / first_mib, 1.5, "x"),
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Round:
    """Of its quiet part and its hostile one; `failed`, `mib`: in the hostile one."""

    failed: int
    p99_s: tuple[float, float]
    cpu_s: tuple[float, float]
    mib: float


def _ratio(pairs: list[tuple[float, float]]) -> float:
    """The median of the second values, by that of the first."""
    quiet, hostile = zip(*pairs, strict=True)
    return statistics.median(hostile) / statistics.median(quiet)


class _Setup:
    """The good servers, a client, and the process that they share."""

    def __init__(self, fleet: Fleet, service: int, bus: Bus, *, short: bool) -> None:
        self.first_mib = 0.0
        self._folder = fleet.folder
        self._service = psutil.Process(service)
        self._bus = bus
        self._client = Client(fleet.ports, short=short)

    @classmethod
    async def start(cls, fleet: Fleet, *, short: bool) -> _Setup:
        file = fleet.folder / "attach.toml"
        file.write_text(toml(_good()))
        service = fleet.start(
            "searchbus_attach", attach_file=file, data_dir=fleet.folder, attach_poll_s=0.5
        )
        await fleet.edge()
        for name in GOOD:
            await fleet.ready(qualified(name, "echo"))
        bus = await connect(fleet.nats_url, name="chaos-neighbours")
        return cls(fleet, service.pid, bus, short=short)

    async def close(self) -> None:
        self._client.close()
        await self._bus.close()

    async def round(self, way: str, calls: int) -> _Round:
        """A quiet part, then one beside the hostile server."""
        quiet, quiet_cpu_s, mib = await self._called(calls)
        self.first_mib = self.first_mib or mib
        with _hostile(self._folder, way) as keys:
            self._attach({"hostile": keys | {"policy": "accept"}})
            try:
                await until(lambda: self._is_up("hostile"), timeout_s=READY_S)
                outcomes, cpu_s, mib = await self._called_beside_attack(calls)
            finally:
                self._attach({})
            await until(lambda: self._is_removed("hostile"), timeout_s=READY_S)
        return _Round(
            counts(outcomes)["failed"],
            (_p99_s(quiet), _p99_s(outcomes)),
            (quiet_cpu_s, cpu_s),
            mib,
        )

    def _attach(self, more: dict[str, Any]) -> None:
        (self._folder / "attach.toml").write_text(toml(_good() | more))

    async def _is_up(self, name: str) -> bool:
        servers = (await status_of(self._bus)).servers
        return any(s.name == name and s.state == "up" for s in servers)

    async def _is_removed(self, name: str) -> bool:
        return all(s.name != name for s in (await status_of(self._bus)).servers)

    async def _called_beside_attack(self, calls: int) -> tuple[list[Outcome], float, float]:
        attack = asyncio.create_task(_attack(self._client))
        try:
            return await self._called(calls)
        finally:
            attack.cancel()
            await asyncio.gather(attack, return_exceptions=True)

    async def _called(self, calls: int) -> tuple[list[Outcome], float, float]:
        """Call the good servers in turn; the outcomes, CPU time and most memory of the service."""
        started_s, most_mib, tasks = time.monotonic(), 0.0, []
        before = self._service.cpu_times()
        for number, name in zip(range(calls), itertools.cycle(GOOD), strict=False):
            await asyncio.sleep(max(0.0, started_s + number / RATE_PER_S - time.monotonic()))
            call = self._client.echo(qualified(name, "echo"), deadline_s=30.0)
            tasks.append(asyncio.create_task(call))
            if not number % 10:
                most_mib = max(most_mib, rss_mib(self._service.pid))
        outcomes = list(await asyncio.gather(*tasks))
        after = self._service.cpu_times()
        cpu_s = after.user + after.system - before.user - before.system
        return outcomes, cpu_s, most_mib


def _good() -> dict[str, dict[str, Any]]:
    return {name: _command("plain_server.py") for name in GOOD}


def _command(program: str, *arguments: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", "-S", str(PROGRAMS / program), *arguments]}


@contextmanager
def _hostile(folder: Path, way: str) -> Iterator[dict[str, Any]]:
    """The keys of a hostile server."""
    behaviour = way.removesuffix("-url")
    keys = _command("hostile_server.py", behaviour)
    if behaviour == way:
        yield keys
        return
    url = folder / way
    url.unlink(missing_ok=True)  # that of the round before leads nowhere
    process = subprocess.Popen([keys["command"], *keys["args"], str(url)])
    try:
        while not (url.exists() and url.read_text()):
            time.sleep(0.05)
        yield {"url": url.read_text()}
    finally:
        process.kill()
        process.wait()


async def _attack(client: Client) -> None:
    """Have the hostile server called all the time."""
    while True:
        await client.call(qualified("hostile", "act"), {}, deadline_s=5.0)
        await asyncio.sleep(0.1)


def _p99_s(outcomes: list[Outcome]) -> float:
    return sorted(outcome.took_s for outcome in outcomes)[len(outcomes) * 99 // 100]

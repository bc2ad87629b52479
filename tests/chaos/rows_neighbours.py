"""Twenty attached servers, one of which is hostile in each of its ways in turn, while the others are called."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from searchbus_bus import connect
from searchbus_testing import until

from .client import Client, Outcome, counts
from .fleet import READY_S, ROOT, Fleet, rss_mib
from .rows_attach import qualified, status_of, toml
from .scorecard import Measurement, at_most

__all__ = ["neighbours"]

NAME = "neighbours"
PROGRAMS = ROOT / "services" / "attach" / "tests" / "programs"
GOOD = [f"good{number}" for number in range(19)]
COMMANDS = (
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
)
URLS = ("giant", "values", "logs", "events", "cookies", "redirects", "hang")
RATE_PER_S = 100.0


async def neighbours(folder: Path, *, short: bool) -> list[Measurement]:
    """What the others notice of it."""
    calls, file = 200 if short else 2_000, folder / "attach.toml"
    good = {name: _command("plain_server.py") for name in GOOD}
    ways = [(way, False) for way in COMMANDS] + [(way, True) for way in URLS]
    async with Fleet(folder) as fleet:
        file.write_text(toml(good))
        service = fleet.start("searchbus_attach", attach_file=file, data_dir=folder)
        await fleet.edge()
        for name in GOOD:
            await fleet.ready(qualified(name, "echo"))
        bus = await connect(fleet.nats_url, name="chaos-neighbours")
        async with Client(fleet.ports, short=short) as client:
            measured: list[Measurement] = []
            first_mib = 0.0
            for way, by_url in ways:
                # Before each, because the machine is not equally busy all the time.
                quiet, mib = await _called(client, calls, service.pid)
                first_mib = first_mib or mib
                with _hostile(folder, way, by_url=by_url) as keys:
                    file.write_text(toml({**good, "hostile": keys | {"policy": "accept"}}))

                    async def started() -> bool:
                        servers = (await status_of(bus)).servers
                        return any(s.name == "hostile" and s.state != "starting" for s in servers)

                    await until(started, timeout_s=READY_S)
                    attack = asyncio.create_task(_attack(client))
                    try:
                        where = f"{way} (URL)" if by_url else way
                        outcomes, mib = await _called(client, calls, service.pid)
                    finally:
                        attack.cancel()
                        await asyncio.gather(attack, return_exceptions=True)
                    file.write_text(toml(good))
                failed = counts(outcomes)["failed"]
                measured += [
                    at_most(NAME, f"{where}: failed of {calls} calls of the others", failed, 0),
                    at_most(NAME, f"{where}: their p99 / that of a quiet run before",
                            _p99_s(outcomes) / _p99_s(quiet), 2, "x"),
                    at_most(NAME, f"{where}: memory of the service / that before all",
                            mib / first_mib, 1.5, "x"),
                ]  # fmt: skip
        await bus.close()
    return measured


def _command(program: str, *arguments: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-I", "-S", str(PROGRAMS / program), *arguments]}


@contextmanager
def _hostile(folder: Path, way: str, *, by_url: bool) -> Iterator[dict[str, Any]]:
    """The keys of a hostile server."""
    keys = _command("hostile_server.py", way)
    if not by_url:
        yield keys
        return
    url = folder / f"url-{way}"
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


async def _called(client: Client, calls: int, pid: int) -> tuple[list[Outcome], float]:
    """Call the good servers in turn; the outcomes, and the most memory of the service."""
    started_s, most_mib, tasks = time.monotonic(), 0.0, []
    for number, name in zip(range(calls), itertools.cycle(GOOD), strict=False):
        await asyncio.sleep(max(0.0, started_s + number / RATE_PER_S - time.monotonic()))
        tasks.append(asyncio.create_task(client.echo(qualified(name, "echo"), deadline_s=30.0)))
        if not number % 10:
            most_mib = max(most_mib, rss_mib(pid))
    return list(await asyncio.gather(*tasks)), most_mib


def _p99_s(outcomes: list[Outcome]) -> float:
    return sorted(outcome.took_s for outcome in outcomes)[len(outcomes) * 99 // 100]

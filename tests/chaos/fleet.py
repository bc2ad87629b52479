"""Processes of a stack that a row may kill: NATS servers, edges, workers, upstreams.

async with Fleet(folder) as fleet:
    edge = await fleet.edge()
    worker = fleet.start("tests.chaos.worker")
    await fleet.ready(workers=1)
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import psutil

from searchbus_cli.servers import write_configuration
from searchbus_testing import NatsServer, eventually, free_port, until

from .client import Client

ROOT = Path(__file__).parents[2]
READY_S = 300.0
"""Only ends a run that hangs."""


class Fleet:
    """Starts processes; all of them end with it.

    Args:
        folder: for logs and files.
        cluster: number of NATS servers.
        settings: of every process, without their prefix.
    """

    def __init__(self, folder: Path, *, cluster: int = 1, **settings: object) -> None:
        self.folder = folder
        self.nats: list[NatsServer] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self.ports: list[int] = []
        self._cluster = cluster
        self._edges = itertools.count()
        self._monitors: list[int] = []
        self._settings = {
            "search": "false", "call_rate_per_s": 0, "abuse_rate_per_s": 1_000_000,
            "state_key": "k" * 32, "embedder": "hash", "log_level": "info", **settings,
        }  # fmt: skip

    async def __aenter__(self) -> Fleet:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._log = (self.folder / "log").open("wb")
        try:
            await asyncio.to_thread(self._start_nats)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self.processes:
            try:
                await asyncio.to_thread(process.wait, 20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for server in self.nats:
            server.stop()
        self._log.close()

    @property
    def nats_url(self) -> str:
        """Of every server."""
        return ",".join(server.url for server in self.nats)

    @property
    def log(self) -> str:
        """What the processes printed."""
        return (self.folder / "log").read_text(errors="replace")

    def start(self, module: str, *arguments: str, **settings: object) -> subprocess.Popen[bytes]:
        """Start a service's package, or another module, as a process."""
        service = module.removeprefix("searchbus_")
        is_service = (ROOT / "services" / service).is_dir()
        run = ["searchbus_runtime", service] if is_service else [module]
        given = {"nats_url": self.nats_url, **self._settings, **settings}
        process = subprocess.Popen(
            [sys.executable, "-m", *run, *arguments], cwd=ROOT, stdout=self._log,
            stderr=self._log,
            env={**os.environ, **{f"SEARCHBUS_{k.upper()}": str(v) for k, v in given.items()}},
        )  # fmt: skip
        self.processes.append(process)
        return process

    async def edge(
        self, *, report: Path | None = None, **settings: object
    ) -> subprocess.Popen[bytes]:
        """Start an edge and wait until it listens.

        Args:
            report: where it says what it holds, see watched.py.
        """
        number = next(self._edges)
        path = self.folder / f"edge-{number}.port"
        watched = ("tests.chaos.watched", str(report), "searchbus_runtime", "edge")
        program = ("searchbus_edge",) if report is None else watched
        process = self.start(*program, port=0, port_file=path, **settings)
        await until(path.exists, timeout_s=READY_S, message=lambda: self.log[-4000:])
        self.ports.append(int(path.read_text()))
        return process

    async def ready(self, tool: str = "echo", *, workers: int = 0, service: str = "chaos") -> None:
        """Wait until every edge lists a tool, and this many workers of a service answer."""
        for port in self.ports:
            async with Client([port]) as client:

                async def listed(client: Client = client) -> bool:
                    try:
                        _, found = await client.post("tools/list", {})
                    except (OSError, asyncio.IncompleteReadError):
                        return False
                    names = {t["name"] for t in found.get("result", {}).get("tools", [])}
                    return tool in names

                await until(listed, timeout_s=READY_S, message=lambda: self.log[-4000:])
        if workers:
            from searchbus_bus import connect

            bus = await connect(self.nats_url, name="chaos-look")

            async def all_there() -> bool:
                found = await bus.workers()
                return sum(w.service == service for w in found) >= workers

            await until(all_there, timeout_s=READY_S, message=lambda: self.log[-4000:])
            await bus.close()

    async def fakes(self) -> dict[str, Any]:
        """Start the fake upstreams; the settings of services that use them, and the URLs."""
        path = self.folder / "fakes.json"
        self.start("searchbus_fakes", "--settings", str(path))
        await until(path.exists, timeout_s=READY_S)
        found: dict[str, Any] = json.loads(path.read_text())
        return found

    async def scrapers(
        self, url: str, count: int, **settings: object
    ) -> list[subprocess.Popen[bytes]]:
        """Start scrapers of a fake DuckDuckGo, at a quick pace; the first one's address is 127.0.0.11.

        Args:
            settings: in place of the quick pace, for instance.
        """
        given = {
            "ddg_egress": json.dumps([f"bind:127.0.0.{11 + number}" for number in range(count)]),
            "ddg_html_url": f"{url}/html/", "ddg_lite_url": f"{url}/lite/",
            "ddg_instant_url": f"{url}/instant", "ddg_interval_s": 0.05,
            "ddg_min_interval_s": 0.02, "ddg_challenge_rest_s": 3, "ddg_suspicion_rest_s": 1,
            **settings,
        }  # fmt: skip
        found = [self.start("searchbus_ddg", worker_index=n, **given) for n in range(count)]
        await self.ready("web_search", service="ddg", workers=count)
        return found

    def monitors(self) -> Sequence[int]:
        """Ports of the servers' monitoring pages, in the order of `nats`."""
        return self._monitors

    def _start_nats(self) -> None:
        routes = [free_port() for _ in range(self._cluster)]
        self._monitors = [free_port() for _ in range(self._cluster)]
        for number in range(self._cluster):
            folder = self.folder / f"nats-{number}"
            folder.mkdir()
            config = write_configuration(folder)
            arguments = ["-c", str(config), "-m", str(self._monitors[number])]
            if self._cluster > 1:
                urls = ",".join(f"nats://127.0.0.1:{port}" for port in routes)
                arguments += ["-n", f"n{number}", "--cluster_name", "chaos", "--routes", urls,
                              "--cluster", f"nats://127.0.0.1:{routes[number]}"]  # fmt: skip
            server = NatsServer(folder, port=free_port(), arguments=tuple(arguments))
            server.start()
            self.nats.append(server)
        if self._cluster > 1:
            eventually(self._is_formed, timeout_s=READY_S)

    def _is_formed(self) -> bool:
        """Whether the servers have a leader; buckets made before have one replica for a while."""
        found = [monitor(port, "jsz").get("meta_cluster", {}) for port in self._monitors]
        return all(m.get("leader") and m.get("cluster_size") == self._cluster for m in found)


def monitor(port: int, page: str) -> dict[str, Any]:
    """A monitoring page of a NATS server."""
    found: dict[str, Any] = httpx.get(
        f"http://127.0.0.1:{port}/{page}", timeout=10, trust_env=False
    ).json()
    return found


def rss_mib(pid: int) -> float:
    """Resident memory of a process."""
    return float(psutil.Process(pid).memory_info().rss) / 2**20

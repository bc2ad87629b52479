"""The whole stack on one machine: NATS, then the services, the edge last; stopped in reverse."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit, urlunsplit

import httpx

from searchbus_contracts.services import OPERATOR
from searchbus_runtime import StackState, read_state, write_state
from searchbus_runtime.reserve import make_room
from searchbus_runtime.state import LOCK_FILE

from .children import Child, GaveUp
from .errors import AlreadyRunning, StackError
from .launching import Launcher
from .logfile import LogFile
from .nats_server import bound_port, nats_server_binary, write_configuration
from .output import err
from .secure import Security
from .stack_services import EDGE, StackService, find_services, needed_services

__all__ = ["Stack"]

# For slow and busy machines: a process that cannot start ends the stack long before.
READY_TIMEOUT_S = 600.0
NATS_TIMEOUT_S = 120.0
FAKES_TIMEOUT_S = 300.0
LOCK_ATTEMPTS = 5
RETRY_S = 30.0
"""Between attempts to start a service that ends at once, while the others run."""
WRITE_AGAIN_S = 2.0
"""Between attempts to write the state file."""


@dataclass
class Stack:
    """A stack on a data folder.

    Args:
        scale: service → number of processes.
        extra: further services to start, name → module.
        secure: with an nkey and permissions for each service, and signed callers.
        fake_upstreams: run the fake search engines and pages of tests/fakes in this checkout.
        environment: settings for every service.
        verbose: whether the lines of all processes are printed; they are in `logs` in any case.
        toolsets: run only the services that these need, and the edge; `None` runs all.
        launcher: forks the services; by default one is opened.
    """

    data: Path
    host: str = "127.0.0.1"
    port: int = 8080
    scale: Mapping[str, int] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    fake_upstreams: bool = False
    secure: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    verbose: bool = False
    toolsets: set[str] | None = None
    launcher: Launcher | None = None
    children: list[Child] = field(default_factory=list)
    nats_url: str = ""
    url: str = ""
    _security: Security | None = None
    _lock: IO[str] | None = None
    _edges: list[str] = field(default_factory=list)
    _keepers: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _one_ended: asyncio.Event = field(default_factory=asyncio.Event)
    _services: dict[str, StackService] = field(default_factory=dict)
    _write_again: asyncio.TimerHandle | None = None
    _failed_writes: int = 0

    @property
    def logs(self) -> Path:
        """The folder with one log for each process."""
        return self.data / "logs"

    async def start(self) -> None:
        """Start everything and wait until the edge is ready.

        Raises:
            StackError: with what to do.
        """
        services = find_services(self.extra)
        self._check(services)
        self._lock_folder()
        if self.launcher is None:
            self.launcher = Launcher.open()
        if self.secure:
            self._security = self._open_keys(services)
        nats_port = await self._start_nats()
        self.nats_url = f"nats://127.0.0.1:{nats_port}"
        if self.fake_upstreams:
            await self._start_fakes()
        self._services = services
        edge = services.get(EDGE)
        # The edge is forked before the launcher imports what only some of the others need.
        first = self._start_first_edge(edge) if edge is not None else None
        self._start_services()
        if edge is not None and first is not None:
            await self._start_edges(edge, first)
        self.publish()
        await self._close_launcher()

    def want(self, toolset: str) -> None:
        """Run the services that this toolset needs as well."""
        if self.toolsets is not None:
            self.toolsets.add(toolset)
            if self._services:
                self._start_services()

    def publish(self) -> None:
        """Write the state file, by which others find the stack; on a full disk, later again."""
        processes = {c.name: c.pid for c in self.children if c.pid is not None}
        state = StackState(
            url=self.url,
            nats_url=self.nats_url,
            data=str(self.data),
            pid=os.getpid(),
            processes=processes,
            otlp_endpoint=_otlp_endpoint({**os.environ, **self.environment}),
        )
        self._stop_writing()
        try:
            write_state(state)
        except OSError as error:
            self._failed_writes += 1
            if self._failed_writes == 1:
                _say(f"state.json cannot be written ({error.strerror}); it is tried again")
            loop = asyncio.get_running_loop()
            self._write_again = loop.call_later(WRITE_AGAIN_S, self.publish)
        else:
            if self._failed_writes:
                _say(f"state.json was written after {self._failed_writes} failed attempts")
            self._failed_writes = 0

    def withdraw(self) -> None:
        """Remove the state file: nobody finds the stack any more."""
        self._stop_writing()
        (self.data / "state.json").unlink(missing_ok=True)

    def _stop_writing(self) -> None:
        if self._write_again is not None:
            self._write_again.cancel()
            self._write_again = None

    async def wait(self, stop: asyncio.Event) -> None:
        """Wait for `stop`.

        Raises:
            StackError: a process cannot be kept running.
        """
        loop = asyncio.get_running_loop()
        events = [loop.create_task(event.wait()) for event in (stop, self._one_ended)]
        await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
        for task in events:
            task.cancel()
        self._raise_for_dead()

    async def stop(self) -> None:
        """Stop the edge, then the services, then NATS."""
        for child in self.children:
            child.stopping = True
        await self._close_launcher()
        edges = [c for c in self.children if c.name in self._edges]
        nats = [c for c in self.children if c.name == "nats"]
        fakes = [c for c in self.children if c.name == "fakes"]
        others = [c for c in self.children if c not in [*edges, *nats, *fakes]]
        for group in (edges, others, fakes, nats):
            await asyncio.gather(*(child.stop() for child in group))
        for keeper in self._keepers.values():
            keeper.cancel()
        await asyncio.gather(*self._keepers.values(), return_exceptions=True)
        for child in self.children:
            if child.log is not None:
                child.log.close()
        if self._lock is not None:
            self.withdraw()
            self._lock.close()

    async def _close_launcher(self) -> None:
        """A process that ends later is started again as a program, with its present code."""
        if self.launcher is not None:
            await self.launcher.close()
            self.launcher = None

    def _check(self, services: Mapping[str, StackService]) -> None:
        for name, count in self.scale.items():
            if name not in services:
                known = ", ".join(sorted(services))
                raise StackError(f"--scale {name}: there is no such service. Known: {known}.")
            declaration = services[name].declaration
            needed = declaration.scalable_with if declaration is not None else ""
            if count > 1 and needed and not os.environ.get(needed):
                raise StackError(
                    f"--scale {name}: only one process can use the data folder. Set {needed} to "
                    f"run several."
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

    def _lock_folder(self) -> None:
        self.data.parent.mkdir(parents=True, exist_ok=True)
        self.data.mkdir(mode=0o700, exist_ok=True)
        make_room(self.data)
        lock = (self.data / LOCK_FILE).open("a+")
        if not _locked(lock):
            lock.close()
            state = read_state(self.data)
            where = f" at {state.url} (process {state.pid})" if state else ""
            raise AlreadyRunning(
                f"A stack is already running on {self.data}{where}. Use it, stop it, or choose "
                "another folder with --data."
            )
        self._lock = lock
        self.withdraw()

    def _needed(self) -> dict[str, StackService]:
        """The services beside the edge, those with most to import first."""
        services = {name: s for name, s in self._services.items() if name != EDGE}
        if self.toolsets is not None:
            needed = needed_services(self._services, self.toolsets)
            services = {name: s for name, s in services.items() if name in needed}
        return dict(sorted(services.items(), key=lambda item: (not item[1].preload, item[0])))

    def _start_services(self) -> None:
        """Start those that are needed and do not run yet."""
        for name, service in self._needed().items():
            if name in self._keepers:
                continue
            for number in range(self.scale.get(name, 1)):
                label = name if number == 0 else f"{name}-{number + 1}"
                self._keep(self._child(service, label, {"SEARCHBUS_WORKER_INDEX": str(number)}))

    def _open_keys(self, services: Mapping[str, StackService]) -> Security:
        users = {OPERATOR.name: OPERATOR}
        for name, service in services.items():
            if service.declaration is None:
                raise StackError(
                    f"--service {name}: a secured stack needs the service's declaration. Add "
                    f'SERVICE = Service(name="{name}", ...) to its module.'
                )
            users[name] = service.declaration
        return Security.open(self.data, users)

    async def _start_nats(self) -> int:
        folder = self.data / "nats"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        authorization = self._security.authorization if self._security is not None else ""
        config = write_configuration(folder, authorization=authorization)
        command = [str(nats_server_binary()), "-c", str(config)]
        self._keep(self._logged("nats", command, {}, color="bright_black"))
        give_up_s = time.monotonic() + NATS_TIMEOUT_S
        while time.monotonic() < give_up_s:
            self._raise_for_dead()
            port = bound_port(folder)
            if port is not None:
                # A restarted server comes back on the port that every process knows.
                write_configuration(folder, port=port, authorization=authorization)
                return port
            await asyncio.sleep(0.02)
        raise StackError(
            f"nats-server did not start within {NATS_TIMEOUT_S:.0f} s. See {self.logs}."
        )

    async def _start_fakes(self) -> None:
        root = Path(__file__).parents[4]
        if not (root / "tests" / "fakes" / "__main__.py").is_file():
            raise StackError("--fake-upstreams works in a checkout of searchbus only.")
        written = self.data / "fakes.json"
        written.unlink(missing_ok=True)
        arguments = [sys.executable, "-m", "tests.fakes", "--settings", str(written)]
        self._keep(
            self._logged("fakes", arguments, {"PYTHONPATH": str(root)}, color="bright_black")
        )
        give_up_s = time.monotonic() + FAKES_TIMEOUT_S
        while not written.exists():
            self._raise_for_dead()
            if time.monotonic() > give_up_s:
                raise StackError(f"The fake upstreams did not start. See {self.logs}.")
            await asyncio.sleep(0.05)
        self.environment |= json.loads(written.read_text())["environment"]

    def _start_first_edge(self, edge: StackService) -> Child:
        """Start the edge that may choose the port."""
        workers = sorted(s.worker for s in self._needed().values() if s.worker is not None)
        environment = {
            "SEARCHBUS_HOST": self.host,
            "SEARCHBUS_PORT": str(self.port),
            "SEARCHBUS_REQUIRED_SERVICES": json.dumps(workers),
        }
        if self.scale.get(EDGE, 1) > 1:
            environment["SEARCHBUS_REUSE_PORT"] = "true"
        return self._start_edge(edge, EDGE, environment)

    async def _start_edges(self, edge: StackService, first: Child) -> None:
        """Start the other edges on the port of the first, and wait for all."""
        port = await self._port_of(EDGE)
        url = f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{port}"
        # A restarted edge keeps its address.
        first.environment = {**first.environment, "SEARCHBUS_PORT": port}
        labels = [f"{EDGE}-{n}" for n in range(2, self.scale.get(EDGE, 1) + 1)]
        for label in labels:
            self._start_edge(edge, label, first.environment)
        for label in labels:
            await self._port_of(label)
        await self._wait_until(lambda: _is_ready(url), EDGE)
        # From here on the state file is written: the stack is ready.
        self.url = url

    def _start_edge(self, edge: StackService, label: str, environment: Mapping[str, str]) -> Child:
        port_file = self._port_file(label)
        port_file.unlink(missing_ok=True)
        child = self._child(edge, label, {**environment, "SEARCHBUS_PORT_FILE": str(port_file)})
        self._edges.append(label)
        self._keep(child)
        return child

    def _port_file(self, label: str) -> Path:
        return self.data / f"{label}.port"

    async def _port_of(self, label: str) -> str:
        """The port of an edge, once it listens."""
        path = self._port_file(label)

        async def listens() -> bool:
            return path.exists()

        await self._wait_until(listens, label)
        return path.read_text().strip()

    async def _wait_until(self, done: Callable[[], Awaitable[bool]], label: str) -> None:
        give_up_s = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < give_up_s:
            self._raise_for_dead()
            if await done():
                return
            await asyncio.sleep(0.1)
        raise StackError(f"{label} is not ready after {READY_TIMEOUT_S:.0f} s. See {self.logs}.")

    def _child(self, service: StackService, label: str, environment: Mapping[str, str]) -> Child:
        keys = self._security.environment(service.name) if self._security is not None else {}
        return self._logged(
            label,
            [sys.executable, *service.arguments],
            {
                "SEARCHBUS_NATS_URL": self.nats_url,
                "SEARCHBUS_DATA_DIR": str(self.data),
                "SEARCHBUS_LOG_FORMAT": os.environ.get("SEARCHBUS_LOG_FORMAT", "console"),
                "PYTHONUNBUFFERED": "1",
                **self.environment,
                **keys,
                **environment,
            },
            service=service.runner_arguments,
            preload=service.preload,
            launcher=self.launcher,
        )

    def _logged(
        self, label: str, command: list[str], environment: Mapping[str, str], **options: Any
    ) -> Child:
        self.logs.mkdir(exist_ok=True)
        log = LogFile(self.logs / f"{label}.log")
        return Child(label, command, environment, log=log, verbose=self.verbose, **options)

    def _keep(self, child: Child) -> None:
        def started(_: Child) -> None:
            if self.url:
                self.publish()

        async def keep() -> None:
            while True:
                try:
                    return await child.keep_running(started)
                except GaveUp as error:
                    # Nothing works without these; the others may work without this one.
                    vital = not self.url or child.name in ("nats", *self._edges)
                    if vital or error.code == 2:
                        raise
                    child.say(f"{error} It is started again every {RETRY_S:.0f} s.")
                await asyncio.sleep(RETRY_S)

        self.children.append(child)
        keeper = asyncio.get_running_loop().create_task(keep())
        keeper.add_done_callback(lambda _: self._one_ended.set())
        self._keepers[child.name] = keeper

    def _raise_for_dead(self) -> None:
        for keeper in self._keepers.values():
            if keeper.done() and not keeper.cancelled():
                error = keeper.exception()
                if isinstance(error, GaveUp):
                    raise StackError(str(error))
                if error is not None:
                    raise error


def _say(line: str) -> None:
    err.print(line, highlight=False, soft_wrap=True)


def _otlp_endpoint(environment: Mapping[str, str]) -> str:
    """Where the services send their traces, without credentials; empty for the trace file."""
    endpoint = environment.get("SEARCHBUS_OTLP_ENDPOINT") or environment.get(
        "OTEL_EXPORTER_OTLP_ENDPOINT"
    )
    if not endpoint:
        return ""
    parts = urlsplit(endpoint)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _locked(file: IO[str]) -> bool:
    """Lock a file that no other process holds; one that only looks holds it for a moment."""
    for _ in range(LOCK_ATTEMPTS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.05)
        else:
            return True
    return False


async def _is_ready(url: str) -> bool:
    try:
        async with httpx.AsyncClient(timeout=2, trust_env=False) as client:
            return (await client.get(f"{url}/readyz")).status_code == 200
    except httpx.HTTPError:
        return False

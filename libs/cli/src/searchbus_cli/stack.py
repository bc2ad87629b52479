"""The whole stack on one machine: NATS, then the services, the edge last; stopped in reverse."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from searchbus_contracts.services import OPERATOR
from searchbus_runtime import StackState
from searchbus_runtime.config_file import ConfigFile
from searchbus_runtime.config_sources import Sources
from searchbus_runtime.files import space_for_start
from searchbus_runtime.python import python
from searchbus_runtime.setting_list import SHARED
from searchbus_runtime.state import process_started
from searchbus_runtime.wording import CommandError

from .children import Child, LogFile, Processes
from .errors import StackError
from .launching import Launcher
from .output import tell
from .servers import Edges, check_port, start_fakes, start_nats
from .stack_folder import StateFile, claim_folder
from .stack_services import EDGE, StackService, find_services, needed_services

if TYPE_CHECKING:
    from .secure import Security

SOURCES_FILE = "sources.toml"
"""In the data folder: the sources that a stack keeps in sync (`searchbus sync`)."""
_LOOK_EVERY_S = 2.0
"""Seconds between looks for the files that start a service."""


@dataclass
class Stack:
    """A stack on a data folder.

    Args:
        scale: service → number of processes.
        extra: further services to start, name → module.
        secure: with an nkey and permissions for each service, and signed callers.
        fake_upstreams: run the fake search engines and pages of searchbus_fakes.
        config: the configuration file, which every service reads as well.
        environment: settings for every service.
        verbose: whether the lines of all processes are printed; they are in `logs` in any case.
        toolsets: run only the services that these need, and the edge; `None` runs all.
        with_edge: False for a command that needs some services on a bus of its own.
        launcher: forks the services; by default one is opened.
    """

    data: Path
    host: str = "127.0.0.1"
    port: int = 8080
    scale: Mapping[str, int] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)
    fake_upstreams: bool = False
    secure: bool = False
    config: ConfigFile | None = None
    environment: dict[str, str] = field(default_factory=dict)
    verbose: bool = False
    toolsets: set[str] | None = None
    with_edge: bool = True
    launcher: Launcher | None = None
    nats_url: str = ""
    url: str = ""
    _security: Security | None = None
    _lock: IO[str] | None = None
    _services: dict[str, StackService] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._processes = Processes(on_restart=self.publish)
        self._state_file = StateFile(self.data)

    @property
    def logs(self) -> Path:
        """The folder with one log for each process."""
        return self.data / "logs"

    @property
    def children(self) -> list[Child]:
        """Its processes, in the order of their start."""
        return self._processes.children

    async def start(self) -> None:
        """Start everything and wait until the edge is ready; raises StackError: with what to do."""
        services = find_services(self.extra)
        self._check_scale(services)
        for missing in filter(None, (one.missing_file(self.config) for one in services.values())):
            tell(missing)
        check_port(self.host, self.port)
        self._lock = claim_folder(self.data)
        self.withdraw()
        if self.launcher is None:
            self.launcher = Launcher.open()
        if self.secure:
            self._security = self._open_keys(services)
        authorization = self._security.authorization if self._security is not None else ""
        with space_for_start(self.data, "nats"):
            nats_port = await start_nats(
                self.data, self._processes, self._server, authorization=authorization
            )
        self.nats_url = f"nats://127.0.0.1:{nats_port}"
        if self.fake_upstreams:
            self.environment |= await start_fakes(self.data, self._processes, self._server)
        self._services = services
        edges = self._edges(services[EDGE]) if EDGE in services and self.with_edge else None
        workers = sorted(s.worker for s in self._needed().values() if s.worker is not None)
        self.environment["SEARCHBUS_REQUIRED_SERVICES"] = json.dumps(workers)
        # The edge is forked before the launcher imports what only some of the others need.
        if edges is not None:
            edges.start_first()
        self._start_services()
        if edges is not None:
            self.url = await edges.start_others()
        self._processes.complete = True
        self.publish()
        await self._close_launcher()

    def want(self, toolset: str) -> None:
        """Run the services that this toolset needs as well."""
        if self.toolsets is not None:
            self.toolsets.add(toolset)
            if self._services:
                self._start_services()

    def publish(self) -> None:
        """Write the state file, by which others find the stack."""
        self._state_file.write(
            StackState(
                url=self.url,
                nats_url=self.nats_url,
                data=str(self.data),
                pid=os.getpid(),
                started=process_started(os.getpid()),
                processes={c.name: c.pid for c in self.children if c.pid is not None},
                otlp_endpoint=self._otlp_endpoint,
                stop_s=self._processes.stop_s,
            )
        )

    def withdraw(self) -> None:
        """Remove the state file: nobody finds the stack any more."""
        self._state_file.remove()

    async def wait(self, stop: asyncio.Event) -> None:
        """Wait for `stop`; raises StackError: a process cannot be kept running."""
        starting = asyncio.get_running_loop().create_task(self._start_wanted())
        try:
            await self._processes.wait(stop)
        finally:
            starting.cancel()

    async def _start_wanted(self) -> None:
        """Start services whose file appears later (`Service.started_by`)."""
        failed = ""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            try:
                self._start_services()
            except (OSError, CommandError) as error:  # no log can be made, a damaged .env, e.g.
                if failed != str(error):
                    tell(f"the stack cannot be changed ({error}); it is tried again")
                failed = str(error)
            else:
                failed = ""

    async def stop(self) -> None:
        """Stop the edges, then the services, then NATS."""
        for child in self.children:
            child.stopping = True
        await self._close_launcher()
        await self._processes.stop()
        if self._lock is not None:
            self.withdraw()
            self._lock.close()

    @cached_property
    def _otlp_endpoint(self) -> str:
        """Where the services send their traces, without credentials; empty for the trace file. Read
        once: a file that is damaged later does not end a stack that runs."""
        endpoint = (
            self.environment.get("SEARCHBUS_OTLP_ENDPOINT")
            or Sources(EDGE, self.config).text("otlp_endpoint")
            or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
        )
        if not endpoint:
            return ""
        parts = urlsplit(endpoint)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))

    async def _close_launcher(self) -> None:
        """A process that ends later is started again as a program, with its present code."""
        if self.launcher is not None:
            await self.launcher.close()
            self.launcher = None

    def _check_scale(self, services: Mapping[str, StackService]) -> None:
        for name, count in self.scale.items():
            if name not in services:
                known = ", ".join(sorted(services))
                raise StackError(f"--scale {name}: there is no such service. Known: {known}.")
            declaration = services[name].declaration
            needed = declaration.scalable_with if declaration is not None else ""
            if count > 1 and needed and not Sources(name, self.config).text(needed):
                raise StackError(
                    f"--scale {name}: only one process can use the data folder. Set {needed} to "
                    f"run several."
                )

    def _needed(self) -> dict[str, StackService]:
        """The services beside the edge, in the order of their start."""
        known = self._services
        needed = set(known) if self.toolsets is None else needed_services(known, self.toolsets)
        services = {
            name: known[name]
            for name in needed - {EDGE}
            if known[name].is_wanted(self.data, self.config)
        }
        return dict(sorted(services.items(), key=lambda item: (item[1].rank, item[0])))

    def _edges(self, edge: StackService) -> Edges:
        count = self.scale.get(EDGE, 1)
        return Edges(
            [EDGE, *(f"{EDGE}-{number}" for number in range(2, count + 1))],
            self._processes,
            lambda label, environment: self._child(edge, label, environment),
            folder=self.data,
            host=self.host,
            port=self.port,
        )

    def _start_services(self) -> None:
        """Start those that are needed and do not run yet."""
        for name, service in self._needed().items():
            if name in self._processes:
                continue
            attaches = service.declaration is not None and service.declaration.attaches_toolsets
            if attaches and self._processes.complete and not self.secure:
                tell("attached servers reach the open bus: start searchbus up anew to secure it")
            for number in range(self.scale.get(name, 1)):
                label = name if number == 0 else f"{name}-{number + 1}"
                environment = {"SEARCHBUS_WORKER_INDEX": str(number)}
                self._processes.keep(self._child(service, label, environment), "service")
        self._start_sync()

    def _start_sync(self) -> None:
        """Start what keeps sources in sync, once their file exists; it has the operator's keys."""
        file = self.data / SOURCES_FILE
        whole = self.with_edge and self.toolsets is None
        if not whole or "sync" in self._processes or not file.exists():
            return
        if not entry_points(group="searchbus.commands", name="sync"):
            return
        command = python("-m", "searchbus_cli", "sync", "--wait", "--file", str(file))
        # The bus of this stack, which its state file names.
        environment = {
            "SEARCHBUS_NATS_URL": "", "SEARCHBUS_DATA_DIR": str(self.data), "PYTHONUNBUFFERED": "1",
        }  # fmt: skip
        self._processes.keep(self._logged("sync", command, environment), "service")

    def _open_keys(self, services: Mapping[str, StackService]) -> Security:
        # Imported here: an open stack needs no cryptography.
        from .secure import Security

        users = {OPERATOR.name: OPERATOR}
        for name, service in services.items():
            if service.declaration is None:
                raise StackError(
                    f"--service {name}: a secured stack needs the service's declaration. Add "
                    f'SERVICE = Service(name="{name}", ...) to its module, or start searchbus '
                    "with --no-secure."
                )
            users[name] = service.declaration
        return Security.open(self.data, users)

    def _server(self, label: str, command: list[str], environment: dict[str, str]) -> Child:
        return self._logged(label, command, environment, inherits=False, color="bright_black")

    def _child(self, service: StackService, label: str, environment: Mapping[str, str]) -> Child:
        keys = self._security.environment(service.name) if self._security is not None else {}
        sources = Sources(service.name, self.config)
        return self._logged(
            label,
            python(*service.arguments),
            {
                "SEARCHBUS_NATS_URL": self.nats_url,
                "SEARCHBUS_DATA_DIR": str(self.data),
                "SEARCHBUS_LOG_FORMAT": sources.text("log_format") or "console",
                "PYTHONUNBUFFERED": "1",
                **self.environment,
                **keys,
                **environment,
            },
            service=service.runner_arguments,
            preload=service.preload,
            launcher=self.launcher,
            stop_s=_stop_s(sources),
        )

    def _logged(
        self, label: str, command: list[str], environment: Mapping[str, str], **options: Any
    ) -> Child:
        self.logs.mkdir(exist_ok=True)
        log = LogFile(self.logs / f"{label}.log")
        return Child(label, command, environment, log=log, verbose=self.verbose, **options)


def _stop_s(sources: Sources) -> float:
    """Seconds that a service may take to end: it drains its workers, then its HTTP servers, each
    within the setting, and closes what is left."""
    default: float = sources.settings[SHARED]["drain_timeout_s"].default
    try:
        drain_s = float(sources.text("drain_timeout_s") or default)
    except ValueError:  # the service says so, and does not start
        drain_s = default
    return 2 * drain_s + 15

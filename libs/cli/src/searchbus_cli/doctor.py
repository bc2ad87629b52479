"""`searchbus doctor`: checks this machine and the running stack, and says what to do."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPException
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from searchbus_bus import Bus, Seeds, connect
from searchbus_contracts import Actor, Fault, LivePart
from searchbus_contracts.attach import StatusReply, StatusRequest
from searchbus_contracts.retrieval import ListReply, ListRequest
from searchbus_runtime import (
    BusAddress,
    ServiceSettings,
    StackState,
    data_folder,
    find_bus,
    load_settings,
    read_state,
)
from searchbus_runtime.config_file import WrongSettingsError, find_config, use_config
from searchbus_runtime.secret import values_of
from searchbus_runtime.services import known_services
from searchbus_runtime.settings import FollowingSettings, check_seed
from searchbus_runtime.waits import waits_of_attached
from searchbus_runtime.wording import printable

from .config import LOADING_ERRORS, Config, faults_of
from .errors import StackError
from .output import echo, out
from .servers import check_port, nats_server_binary, readiness
from .stack_services import find_services
from .up import edge_settings

Check = tuple[str, bool, str]
LEAST_FREE_BYTES = 500 * 1024 * 1024
LATE_S = 5.0
"""For a worker that has to be there and does not reply yet: a busy one is no failure."""


def doctor(
    data: Annotated[Path | None, typer.Option(help="Data folder to look at.")] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port that `searchbus up` will use; 0: any (default: $SEARCHBUS_PORT or 8080).",
        ),
    ] = None,
    config: Config = None,
    secrets: Annotated[
        Path | None,
        typer.Option(help="A folder of `searchbus nats-config`: try each key at the server."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The checks as JSON.")] = False,
) -> None:
    """Check this machine and the running stack.

    Example: searchbus doctor
    """
    use_config(config)
    folder = data_folder(data)
    checks = [*_machine(folder), *_configuration(folder), *_plugins(folder)]
    with suppress(WrongSettingsError):  # a row of the configuration
        checks += _stack(folder, port)
        if secrets is not None:
            checks += _keys(secrets, folder)
    if as_json:
        rows = [{"check": name, "ok": ok, "message": text} for name, ok, text in checks]
        echo(json.dumps(rows))
    else:
        for name, ok, text in checks:
            mark = ("ok  ", "green") if ok else ("FAIL", "red")
            line = Text.assemble(mark, f" {name:<18} {text}")
            out.print(line, highlight=False, soft_wrap=True)
    if not all(ok for _, ok, _ in checks):
        raise typer.Exit(1)


def _machine(folder: Path) -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield "python", sys.version_info >= (3, 11), f"{version} (3.11 or newer is needed)"
    if not os.environ.get("SEARCHBUS_NATS_URL"):
        try:
            yield "nats-server", True, str(nats_server_binary())
        except StackError as error:
            yield "nats-server", False, str(error)
        # With a bus elsewhere the services are elsewhere too: this may be the image of the client.
        try:
            services = sorted(find_services({}))
            yield "services", bool(services), ", ".join(services) or "none; pip install one"
        except StackError as error:
            yield "services", False, str(error)
    # Not `Path.exists`: below a folder that this user may not enter it raises.
    existing = next((p for p in (folder, *folder.parents) if os.access(p, os.F_OK)), folder)
    fault = _fault_of(existing)
    advice = f": {existing} {fault}; choose another with --data" if fault else ""
    yield "data folder", not fault, f"{folder}{advice}"
    free = shutil.disk_usage(existing).free
    yield "disk", free > LEAST_FREE_BYTES, f"{free / 2**30:.1f} GiB free"


def _fault_of(folder: Path) -> str:
    """Why a folder cannot be used; empty where it can."""
    if not folder.is_dir():
        return "is not a folder"
    try:
        # As root, and on a read-only disk, the permissions say nothing.
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return f"cannot be written ({error.strerror})"


def _configuration(folder: Path) -> list[Check]:
    """A row for each fault of the settings; one row where there is none."""
    try:
        faults = faults_of(folder)
    except LOADING_ERRORS as error:
        faults = [f"not checked, because a service cannot be loaded: {error}"]
    if faults:
        return [("configuration", False, fault) for fault in faults]
    file = find_config(folder)
    return [("configuration", True, str(file.path) if file else "no file, defaults")]


def _plugins(folder: Path) -> Iterator[Check]:
    """The checks of the installed services, of the data folder."""
    for entry in sorted(entry_points(group="searchbus.checks"), key=lambda e: e.name):
        try:
            yield entry.load()(folder)
        except WrongSettingsError:  # a row of the configuration
            continue
        except Exception as error:  # of a package that others wrote
            yield entry.name, False, f"the check itself failed: {error}"


def _stack(folder: Path, port: int | None) -> Iterator[Check]:
    state, address = read_state(folder), find_bus(folder)
    if address is None:
        host, set_port, _ = edge_settings(folder, find_config(folder))
        port = set_port if port is None else port
        try:
            check_port(host, port)
            yield "port", True, f"{port} is free" if port else "any"
        except StackError as error:
            yield "port", False, str(error)
        yield "stack", True, "not running; start it: searchbus up"
        return
    if state is not None:
        yield _edge(state.url)
    try:
        yield from asyncio.run(_workers(address, _expected(state)))
    except Fault as fault:
        yield "nats", False, fault.failure.message


def _keys(folder: Path, data: Path) -> Iterator[Check]:
    """Whether the server accepts each seed of each service, for those of a folder of secrets."""
    settings = load_settings(ServiceSettings)
    address = find_bus(data)
    url = address.url if address is not None else settings.nats_url
    paths = sorted(folder.glob("*/SEARCHBUS_NATS_*NKEY_SEED"))
    if not paths:
        yield "keys", False, f"{folder} has no secrets; `searchbus nats-config --out` makes them"
    for path in paths:
        setting = path.name.removeprefix("SEARCHBUS_").lower()
        fault = ""
        try:
            for seed in values_of(path.read_text()):
                check_seed(seed)
                seeds = Seeds.of(seed, user=path.parent.name, setting=setting)
                asyncio.run(_connects(url, seeds=seeds, tls_files=settings.nats_tls))
        except Fault as error:
            fault = error.failure.message
        except (OSError, ValueError) as error:
            fault = f"{path} {error}"
        yield f"key {path.parent.name}", not fault, fault or setting


async def _connects(url: str, **options: Any) -> None:
    await (await connect(url, name="doctor", connect_timeout_s=2, **options)).close()


def _edge(url: str) -> Check:
    try:
        status, found = readiness(url, 3.0)
        failing = [name for name, ok in found["checks"].items() if not ok]
        text = f"{url}/mcp" if not failing else f"not ready: {', '.join(failing)}"
        return "edge", status == HTTPStatus.OK, text
    except (OSError, HTTPException, ValueError, KeyError):
        return "edge", False, f"{url} does not answer; see logs/ in the data folder"


def _expected(state: StackState | None) -> dict[str, str]:
    """Worker → service of the stack on this machine, or of the installation elsewhere."""
    try:
        if state is None or os.environ.get("SEARCHBUS_NATS_URL"):
            declared = known_services()
            wanted = load_settings(FollowingSettings).expected(declared.values())
            return {one.group: name for name, one in declared.items() if one.group in wanted}
        services = find_services({})
    except (StackError, *LOADING_ERRORS):  # reported by "services" or "configuration"
        return {}
    return {s.worker: name for name, s in services.items() if s.worker and name in state.processes}


async def _damaged(bus: Bus) -> list[Check]:
    """The collections of which something cannot be read."""
    try:
        reply = await bus.request(
            bus.subjects.endpoint("retrieval", "list"), ListRequest(), ListReply,
            service="retrieval", timeout_s=10, actor=Actor(subject="doctor", roles=("*",)),
        )  # fmt: skip
    except Fault as fault:
        return [("collections", False, f"retrieval does not list them: {fault}")]
    return [
        (f"collection {c.name}", False,
         f"{c.damage}; put its folder back from a copy, or delete it and ingest it again")
        for c in reply.collections if c.damage
    ]  # fmt: skip


async def _attached(bus: Bus) -> list[Check]:
    """What attached servers wait for."""
    try:
        status = await bus.request(
            bus.subjects.endpoint("attach", "status"), StatusRequest(), StatusReply,
            service="attach", timeout_s=10,
        )  # fmt: skip
    except Fault as fault:
        return [("attached", False, f"attach does not list them: {fault}")]
    return [
        (f"{wait.kind.replace('_', ' ')} {wait.name}", wait.kind == "attached_held",
         printable(f"{wait.text} {wait.command and f'See: {wait.command}'}", one_line=True))
        for wait in waits_of_attached(status)
    ]  # fmt: skip


async def _workers(address: BusAddress, expected: Mapping[str, str]) -> list[Check]:
    bus = await connect(address.url, name="doctor", connect_timeout_s=3, **address.options)
    try:
        known = dict.fromkeys(expected, 1)  # asked by name, too
        workers = await bus.workers(quiet_s=0.5, patience_s=LATE_S, known=known)
        damaged = await _damaged(bus) if any(w.service == "retrieval" for w in workers) else []
        attached = await _attached(bus) if any(w.service == "attach" for w in workers) else []
        loads = await asyncio.gather(*(bus.live(w.service, w.instance, 3) for w in workers))
    finally:
        await bus.close()
    checks: list[Check] = [("nats", True, address.url)]
    if not workers:
        checks.append(("workers", False, "no worker answers; see logs/ in the data folder"))
    answered = {w.service for w in workers}
    checks += [
        (f"worker {worker}", False, f"{service} does not answer; see its log")
        for worker, service in expected.items()
        if worker not in answered
    ]
    checks += damaged + attached
    for worker, load in zip(workers, loads, strict=True):
        text = f"{worker.instance}, catalog {worker.catalog[:8]}"
        if load is not None and load.limit:
            text += f", {load.in_flight} of {load.limit} requests"
        checks.append((f"worker {worker.service}", True, text))
        checks += [
            (f"{part.kind} {printable(part.name, one_line=True)}", False, _refused(part))
            for part in (load.parts if load is not None else ())
            if part.state == "open"
        ]
    return checks


def _refused(part: LivePart) -> str:
    """What an open breaker means, and until when."""
    until = time.strftime("%H:%M:%S", time.localtime(part.until_ms / 1000))
    advice = "; check the key" if part.kind == "key" else ""
    return f"is refused by its upstream, and not used until {until}{advice}"

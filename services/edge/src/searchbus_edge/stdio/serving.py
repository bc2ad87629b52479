"""Serves MCP over standard input and output from the first moment, by a stack that runs or that is
started for the client."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

from mcp.server.stdio import stdio_server

from searchbus_bus import Bus, MemoryBroker, Worker, connect, end_task
from searchbus_contracts import VERSION
from searchbus_contracts.services import Service, needed_for, toolset_owners
from searchbus_runtime import (
    StackState,
    bus_options,
    configure_logging,
    load_settings,
    read_state,
    stack_options,
)
from searchbus_runtime.config_file import find_config
from searchbus_runtime.python import python
from searchbus_runtime.services import is_wanted
from searchbus_runtime.state import is_claimed, join_clients, make_pipe
from searchbus_runtime.telemetry import configure_telemetry

from ..bootstrap import Edge, open_edge
from ..catalog.view import LAZY
from ..settings import EdgeSettings
from .messages import ClientMessages, Lines

START_TIMEOUT_S = 600.0
"""As long as `searchbus up` waits for its services."""
_JOIN_POLL_S = 0.1


class NoStackError(RuntimeError):
    """There is no stack to join; the message says what to do."""


class StackClient:
    """One client of the stack on a data folder, which exists; it wants one toolset or everything.
    Leaving the context is the end of its use."""

    def __init__(self, folder: Path, toolset: str | None) -> None:
        self._folder = folder
        self._toolset = toolset
        self._reference: int | None = None
        self._leaving = threading.Event()
        self.state: StackState | None = None

    def __enter__(self) -> StackClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """End the use; a `join` that waits in another thread fails."""
        self._leaving.set()
        self._hold(None)

    @property
    def owns(self) -> bool:
        """Whether the stack runs only as long as clients use it."""
        return self._reference is not None

    @property
    def log(self) -> Path:
        """What a stack that a client started has printed."""
        return self._folder / "stdio.log"

    def join(self) -> StackState:
        """Join the stack that runs or starts, or start one; blocks. Raises StackError."""
        give_up_s = time.monotonic() + START_TIMEOUT_S
        with self._turn(give_up_s):
            while not self.find():
                # One that is claimed and has no state starts or stops.
                if is_claimed(self._folder):
                    self._wait(give_up_s)
                else:
                    self._start(give_up_s)
        assert self.state is not None
        return self.state

    def find(self) -> bool:
        """Join the stack that runs now; False where none runs."""
        # The pipe first: a stack that still publishes its state after that waits for this client.
        reference = join_clients(self._folder, self._toolset)
        before, self.state = self.state, read_state(self._folder)
        if self.state is None:
            if reference is not None:
                os.close(reference)
            return False
        # One that was killed may be seen for a moment, with its pipe closed already. Whether a
        # stack counts its clients does not change as long as it runs.
        if reference is not None or before is None or not self.state.is_same(before):
            self._hold(reference)
        return True

    def _start(self, give_up_s: float) -> None:
        """Start a stack; returns when one is up, or where another one claimed the folder first."""
        reader = make_pipe(self._folder)
        try:
            self._hold(join_clients(self._folder, self._toolset))
            with self.log.open("wb") as log:
                process = subprocess.Popen(
                    # Whatever the settings say: it is for the clients of this machine.
                    python("-m", "searchbus_cli", "up", "--host", "127.0.0.1", "--port", "0",
                           "--data", str(self._folder), "--for-clients"),
                    stdin=reader, stdout=log, stderr=log,
                    # Not of the host's process group: it outlives this client.
                    start_new_session=True,
                )  # fmt: skip
        finally:
            os.close(reader)
        # It must not stay as a zombie, which would look as if it ran.
        threading.Thread(target=process.wait, daemon=True).start()
        try:
            while read_state(self._folder) is None:
                if process.returncode is not None and is_claimed(self._folder):
                    self._hold(None)  # nobody reads that pipe
                    return
                self._wait(give_up_s, process)
        except BaseException:
            self._hold(None)  # which ends it
            raise

    def _wait(self, give_up_s: float, process: subprocess.Popen[bytes] | None = None) -> None:
        if process is not None and process.returncode is not None:
            raise NoStackError(f"The stack did not start. See {self.log}.")
        if time.monotonic() > give_up_s:
            raise NoStackError(
                f"The stack is not up after {START_TIMEOUT_S:.0f} s. See {self.log}, or stop what "
                f"uses {self._folder}."
            )
        if self._leaving.wait(_JOIN_POLL_S):
            raise NoStackError("The host has ended the connection.")

    @contextmanager
    def _turn(self, give_up_s: float) -> Iterator[None]:
        """One client of the folder at a time; the lock ends with its process."""
        with (self._folder / "stdio.lock").open("w") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    self._wait(give_up_s)
            yield

    def _hold(self, reference: int | None) -> None:
        previous, self._reference = self._reference, reference
        if previous is not None:
            os.close(previous)


log = logging.getLogger("searchbus.stdio")
SERVICES_TIMEOUT_S = 20.0
_POLL_S = 0.2


async def serve(
    client: StackClient, folder: Path, toolset: str | None, services: Mapping[str, Service]
) -> None:
    """Serve until the client leaves; standard input is read from the first moment.

    At its end the requests that were read are answered, as long as a call may take.
    """
    settings = load_settings(EdgeSettings, "edge", data_dir=folder)
    configure_logging("stdio", level="warning", style=settings.log_format)
    flush = configure_telemetry("edge", settings)
    loop = asyncio.get_running_loop()
    # The SDK's server puts standard error in the place of standard output as long as it serves.
    output = os.dup(sys.stdout.fileno())
    try:
        lines: Any = Lines(sys.stdin.fileno())
        async with stdio_server(stdin=lines) as (incoming, outgoing):
            messages = ClientMessages(incoming, outgoing)
            reading = loop.create_task(messages.read())
            working = loop.create_task(_answer(messages, client, folder, toolset, services))
            await asyncio.wait([reading, working], return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                await _first_ended(
                    working, messages.all_answered(), _unread(output),
                    timeout_s=settings.call_timeout_cap_s,
                )  # fmt: skip
            client.leave()
            failed = working.done()
            await end_task(reading)
            await end_task(working)
            if failed:
                working.result()
            await outgoing.aclose()
    except ExceptionGroup as group:
        error = _first_of(group)
        if not isinstance(error, BrokenPipeError):  # else the client has left
            raise error from None
    finally:
        os.close(output)
        flush()


async def _first_ended(
    task: asyncio.Task[None], *others: Coroutine[Any, Any, None], timeout_s: float
) -> None:
    """Wait for one of them; the others end with this, the task does not."""
    waiting = [asyncio.get_running_loop().create_task(other) for other in others]
    await asyncio.wait([task, *waiting], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    for one in waiting:
        await end_task(one)


async def _unread(descriptor: int) -> None:
    """Wait until nobody reads what is written there."""
    poll = select.poll()
    poll.register(descriptor, 0)  # errors and hang-ups are told in any case
    while True:
        if poll.poll(0):
            return
        await asyncio.sleep(_POLL_S)


async def _answer(
    messages: ClientMessages,
    client: StackClient,
    folder: Path,
    toolset: str | None,
    services: Mapping[str, Service],
) -> None:
    """Answer the handshake at once, and the rest as soon as the stack is up."""
    owners = toolset_owners(services)
    async with AsyncExitStack() as meanwhile:
        if client.state is None:
            # Empty workers stand for those that will be there: the index decides what is declared.
            memory = MemoryBroker().connect(name="stdio")
            for name in _awaited(toolset, services, folder):
                serving = await memory.serve(Worker(name, version=VERSION))
                meanwhile.push_async_callback(serving.drain)
            first = load_settings(EdgeSettings, "edge", data_dir=folder)
            edge = await meanwhile.enter_async_context(open_edge(memory, first, declared=owners))
            await meanwhile.enter_async_context(messages.greeted_by(edge.servers.make(toolset).mcp))
            await asyncio.to_thread(client.join)
        assert client.state is not None
        settings = load_settings(
            EdgeSettings, "edge", nats_url=client.state.nats_url, data_dir=folder
        )
        bus = await connect(
            settings.nats_url,
            name="stdio",
            # A stack that was started again has another port.
            find_url=lambda: client.state.nats_url if client.state is not None else None,
            # With the buckets of an edge: it counts calls and keeps tasks as one.
            **bus_options(settings) | stack_options(folder, "edge"),
        )
        following = asyncio.get_running_loop().create_task(_follow_stack(bus, client))
        try:
            async with open_edge(bus, settings, declared=owners) as edge:
                if client.owns:
                    await _wait_for_services(edge, _awaited(toolset, services, folder))
                if toolset is not None and not edge.registry.offers(toolset):
                    refuse_unknown(
                        toolset, {*declared_toolsets(services), *edge.registry.endpoints}
                    )
                edge.changes.on_change = messages.lists_changed
                await meanwhile.aclose()
                await messages.serve(edge.servers.make(toolset).mcp)
        finally:
            client.leave()
            await end_task(following)
            await bus.close()


def _first_of(group: BaseExceptionGroup[Any]) -> BaseException:
    """The SDK's streams put every error into groups."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _follow_stack(bus: Bus, client: StackClient) -> None:
    """Join again whenever the connection is lost: one of its clients starts the stack again."""
    while True:
        await asyncio.sleep(_POLL_S)
        if bus.connected:
            continue
        try:
            if client.owns:
                await asyncio.to_thread(client.join)
            else:
                client.find()
        except (NoStackError, OSError) as error:
            log.error("%s", error)


def _awaited(toolset: str | None, services: Mapping[str, Service], folder: Path) -> frozenset[str]:
    """The workers that a stack for this client starts."""
    needed = needed_for(None if toolset == LAZY else toolset, services)
    config = find_config(folder)
    wanted = (services[name] for name in needed if is_wanted(services[name], folder, config))
    return frozenset(service.group for service in wanted if service.serves)


async def _wait_for_services(edge: Edge, workers: Collection[str]) -> None:
    """Wait for workers that start because this client joined, so that the first list has them."""
    loop = asyncio.get_running_loop()
    give_up_s = loop.time() + SERVICES_TIMEOUT_S
    # One is present a moment before its catalogue was read.
    while missing := sorted({*workers} - {read.service for read in edge.directory.catalogs}):
        if loop.time() > give_up_s:
            log.warning("%s did not start within %.0f s", ", ".join(missing), SERVICES_TIMEOUT_S)
            return
        await asyncio.sleep(_POLL_S)


def declared_toolsets(services: Mapping[str, Service]) -> set[str]:
    """The toolsets of the installed services."""
    return set[str]().union(*(service.offers for service in services.values()))


def refuse_unknown(toolset: str | None, known: set[str]) -> None:
    """Raise NoStackError for a toolset that nobody offers."""
    if toolset is not None and toolset not in known:
        raise NoStackError(
            f"There is no toolset {toolset}. Choose one of {', '.join(sorted(known))}, or leave "
            "out --toolset for all tools."
        )

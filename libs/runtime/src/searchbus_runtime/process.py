"""The life of a searchbus process: settings → telemetry → bus → start → wait → drain.

It stops in this order: report not ready → drain the workers → stop the HTTP servers → close the
resources, which may still use the bus → close the bus → flush telemetry.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from typing import Any, Generic, TypeVar

import uvloop

from searchbus_bus import Bus, Serving, Worker, connect
from searchbus_bus.loop_watch import LoopWatch
from searchbus_contracts import Fault

from .addresses import url_of
from .connection import bus_options
from .health import Health, health_app
from .logs import configure_logging
from .server import HttpServer
from .settings import ServiceSettings
from .telemetry import configure_telemetry

log = logging.getLogger("searchbus.process")
_AGAIN_S = 0.5
S = TypeVar("S", bound=ServiceSettings)
T = TypeVar("T")

_BUS_GRACE_S = 5.0
"""A process stays ready for this long after it lost NATS. A restart of NATS, of a second or two,
takes the connections of all edges at once: a balancer would have no edge left, although they answer
much without NATS and hold calls until it is back (`RECONNECT_GRACE_S`)."""


class Process(Generic[S]):
    """What a service's `start` receives: its settings, the bus, what is closed at the end."""

    def __init__(self, service: str, settings: S, bus: Bus) -> None:
        self.service = service
        self.settings = settings
        self.bus = bus
        self.health = Health()
        self.resources = AsyncExitStack()
        self._drains: list[Callable[[float], Awaitable[None]]] = []
        self._servers: list[HttpServer] = []
        self._before_drain: list[Callable[[], Awaitable[None]]] = []
        self._at_limit: list[Callable[[], None]] = []
        self.health.add_readiness("bus", self._bus_is_usable)
        self.health.add_detail("bus_away_s", lambda: round(self.bus.away_s, 1))
        self.health.add_detail("refused", lambda: self.bus.fault)

    async def enter(self, resource: AbstractAsyncContextManager[T]) -> T:
        """Enter a context manager, and leave it when the process ends."""
        return await self.resources.enter_async_context(resource)

    async def serve(self, worker: Worker) -> Serving:
        """Serve a worker until the process ends."""
        serving = await self.bus.serve(worker)
        self.drain_too(serving.drain)
        self.health.add_liveness(worker.service, serving.healthy)
        return serving

    def drain_too(self, drain: Callable[[float], Awaitable[None]]) -> None:
        """Drain something together with the workers, in at most so many seconds."""
        self._drains.append(drain)

    def before_drain(self, callback: Callable[[], Awaitable[None]]) -> None:
        """Call back when the process starts to stop, before anything is drained."""
        self._before_drain.append(callback)

    def at_limit(self, callback: Callable[[], None]) -> None:
        """Call back when open HTTP requests have had `drain_timeout_s`, before they are cut."""
        self._at_limit.append(callback)

    async def run_server(self, app: Any, **options: Any) -> int:
        """Serve an application, by HttpServer.start, until the end; its port. Raises OSError."""
        server = await HttpServer.start(app, **options)
        self._servers.append(server)
        return server.port

    async def drain(self) -> None:
        """Stop everything in the order that loses no request; a step that fails is logged."""
        self.health.draining = True
        limit_s = self.settings.drain_timeout_s
        for callback in self._before_drain:
            await _step("a callback", callback())
        await asyncio.gather(*(_step("a worker", drain(limit_s)) for drain in self._drains))
        loop = asyncio.get_running_loop()
        timers = [loop.call_later(limit_s, callback) for callback in self._at_limit]
        for server in self._servers:
            await _step("an HTTP server", server.stop(timeout_s=limit_s + 3))
        for timer in timers:
            timer.cancel()
        await _step("the resources", self.resources.aclose())
        await _step("the bus", self.bus.close())

    async def _bus_is_usable(self) -> bool:
        return self.bus.away_s < _BUS_GRACE_S


async def _step(of: str, step: Awaitable[Any]) -> None:
    try:
        await step
    except Exception:
        log.exception("%s could not be stopped", of)


def run(
    service: str,
    settings: S,
    start: Callable[[Process[S]], Awaitable[None]],
    *,
    health: socket.socket | None = None,
) -> int:
    """Run a service until SIGTERM or SIGINT, with `health` in place of the settings' port. The exit
    code is 2 where another start would fail as well, so that nobody tries it again. Where a signal
    ends the start, this ends the process with 0."""
    configure_logging(service, level=settings.log_level, style=settings.log_format)
    shutdown_telemetry = configure_telemetry(service, settings)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = runner.run(_run(service, settings, start, health))
            if code is None:
                # No thread of the start can be ended, e.g. that of a download. The loop waits for
                # those of its executor at its end, and Python for all of them.
                runner.get_loop().set_default_executor(ThreadPoolExecutor(1))
    finally:
        shutdown_telemetry()
    if code is None:
        os._exit(0)
    return code


async def _run(
    service: str,
    settings: S,
    start: Callable[[Process[S]], Awaitable[None]],
    health: socket.socket | None,
) -> int | None:
    """The exit code; None where a signal ended the start."""
    stop = asyncio.Event()
    process: Process[S] | None = None
    watch = LoopWatch()
    try:
        with _ended_by_signals(stop):
            bus = await when_there(
                "NATS",
                lambda: connect(
                    settings.nats_url, name=service, connect_timeout_s=3.0, **bus_options(settings)
                ),
                settings,
            )
            process = Process(service, settings, bus)
            await start(process)
            if health is not None:
                await process.run_server(health_app(process.health), listener=health)
            elif settings.health_port is not None:
                port = await process.run_server(
                    health_app(process.health), host=settings.health_host, port=settings.health_port
                )
                log.info("health at %s/readyz", url_of(settings.health_host, port))
        if stop.is_set():
            log.info("%s is stopping before it is up", service)
            return None
        # What was built so far stays until the end, so later collections need not look at it.
        # This took the p99 of the edge from 24 to 8 ms. A few hundred objects of it are garbage:
        # to find them among 90,000 takes a tenth of the edge's start.
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        gc.enable()
        watch.start()
        log.info("%s is up", service)
        await stop.wait()
        log.info("%s is stopping", service)
    except (Fault, OSError) as error:
        log.error("%s cannot run: %s", service, error)
        return 2 if isinstance(error, Fault) and not error.failure.retryable else 1
    finally:
        watch.stop()
        if process is not None:
            await process.drain()
    return 0


@contextmanager
def _ended_by_signals(stop: asyncio.Event) -> Iterator[None]:
    """Set `stop` at SIGTERM or SIGINT; the first one within the block ends the block."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def end() -> None:  # nats-py may lose a cancellation: another signal cancels again
        task.cancel()
        stop.set()

    def at_signals(callback: Callable[[], None]) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, callback)

    at_signals(end)
    try:
        yield
    except asyncio.CancelledError:
        if not stop.is_set():
            raise
        while task.uncancel():
            pass
    finally:
        at_signals(stop.set)


async def when_there(
    what: str, attempt: Callable[[], Awaitable[T]], settings: ServiceSettings
) -> T:
    """The outcome of `attempt`, made again every half second while it raises a retryable Fault:
    what a start needs may itself be starting. `what` it is, for the log.

    Raises:
        Fault: the first that is not retryable, or the last one after `connect_timeout_s`.
    """
    loop = asyncio.get_running_loop()
    give_up_s, said = loop.time() + settings.connect_timeout_s, ""
    while True:
        try:
            return await attempt()
        except Fault as fault:
            if not fault.failure.retryable or loop.time() > give_up_s:
                raise
            if said != fault.failure.message:
                said = fault.failure.message
                log.warning("waiting for %s: %s", what, said)
        await asyncio.sleep(_AGAIN_S)


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h
_LARGEST_BLOCK_BYTES = 32 * 1024 * 1024
"""Larger blocks are given back one by one; glibc allows no more."""


def keep_freed_memory(size_bytes: int) -> bool:
    """Keep up to this much freed memory; False, and nothing done, where the C library is not glibc.

    For services that handle values of megabytes. glibc gives the end of its heap back to the system
    as soon as twice the largest block that was freed lies there. The next large value is then made
    in memory that the system must find and clear page by page: half the CPU time of reading a
    document of 5 MiB. What a busy moment needed stays resident up to this size.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is None:
        return False
    block_bytes = min(size_bytes, _LARGEST_BLOCK_BYTES)
    kept = set_option(_M_TRIM_THRESHOLD, size_bytes)
    return bool(kept and set_option(_M_MMAP_THRESHOLD, block_bytes))

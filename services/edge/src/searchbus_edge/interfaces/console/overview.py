"""What runs, live: instances with their load, parts, attached servers, and what waits for a person.

All of it is one mapping, key → JSON value. A watcher receives it once, and then the entries that
changed, at most once a second; None stands for an entry that is gone.

| key | value |
| --- | --- |
| `instance/<service>/<id>` | Instance |
| `away/<service>` | since when a service is away |
| `attached/<server>` | AttachedServer |
| `wait/<kind>/<name>` | what waits for a person, see `_wait` |
| `client/<id>` | Arrival, of any edge |
| `catalogue` | the directory's generation; the only one that every caller sees |

Instances are asked by pings, and only while somebody watches.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from itertools import chain
from typing import Any

import msgspec
from msgspec import Struct
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext

from searchbus_bus import Bus, Directory, end_task
from searchbus_contracts import Fault, LivePart, Pong
from searchbus_contracts.attach import StatusReply, StatusRequest
from searchbus_contracts.visible import visible
from searchbus_runtime.waits import waits_of_attached, waits_of_part

from ...catalog.pinning import HeldChanges
from ...tools.arrivals import KIND, MOST, Arrival, arrivals_of

log = logging.getLogger("searchbus.edge.console")
_EVERY_S = 1.0
_SLOW_EVERY = 3
"""Rounds between two looks at attached servers and held definitions."""
_PINGS_PER_S = 200
"""With more instances the rounds are rarer, as those of discovery."""
_AT_ONCE = 50
_TIMEOUT_S = 2.0
_ATTACH = "attach"
_MAX_CHARS = 300
OPEN_TO_ALL = "catalogue"
_UNSAMPLED = SpanContext(1, 1, is_remote=False)


class Instance(Struct, frozen=True, kw_only=True):
    """One worker. Its parts are those of its process."""

    service: str
    instance: str
    started_ms: int = 0
    answers: bool = True
    version: str = ""
    in_flight: int = 0
    limit: int = 0
    waiting: int = 0
    shed: int = 0
    parts: tuple[LivePart, ...] = ()


class Overview:
    """The mapping, and those who watch it."""

    def __init__(self, bus: Bus, directory: Directory, held: HeldChanges) -> None:
        self._bus = bus
        self._directory = directory
        self._held = held
        self._state: dict[str, Any] = {}
        self._slow: dict[str, Any] = {}
        self._watchers: set[_Watcher] = set()
        self._looking: asyncio.Task[None] | None = None
        self._read = asyncio.Event()
        self._closed = False

    async def watch(self, *, everything: bool) -> AsyncIterator[dict[str, Any]]:
        """The mapping, then the entries that changed, until `close`; `everything`: also others'."""
        watcher = _Watcher(everything)
        self._watchers.add(watcher)
        try:
            if self._looking is None or self._looking.done():
                self._read.clear()
                self._looking = asyncio.get_running_loop().create_task(self._follow())
            await self._read.wait()
            watcher.tell(self._state)
            yield await watcher.changes()
            while not self._closed:
                yield await watcher.changes()
        finally:
            self._watchers.discard(watcher)
            if not self._watchers:
                # Before the wait: whoever comes meanwhile begins a look of their own.
                looking, self._looking = self._looking, None
                await end_task(looking)

    def close(self) -> None:
        """End what others watch: it would hold the server's shutdown."""
        self._closed = True
        for watcher in self._watchers:
            watcher.tell({OPEN_TO_ALL: None})

    async def _follow(self) -> None:
        # Not sampled: what an open page asks would fill the file of traces.
        otel_context.attach(trace.set_span_in_context(NonRecordingSpan(_UNSAMPLED)))
        count = 0
        while True:
            began_s = time.monotonic()
            try:
                await self._look(slow=count % _SLOW_EVERY == 0)
            except Exception:
                log.exception("the state of the services could not be read")
            self._read.set()
            count += 1
            pause_s = max(_EVERY_S, len(self._directory.instances) / _PINGS_PER_S)
            await asyncio.sleep(max(0.0, began_s + pause_s - time.monotonic()))

    async def _look(self, *, slow: bool) -> None:
        if slow:
            self._slow = await self._attached() | await self._held_definitions()
        found = {**await self._instances(), **self._slow, **self._away()}
        found[OPEN_TO_ALL] = self._directory.generation
        changed = {key: value for key, value in found.items() if self._state.get(key) != value}
        changed |= dict.fromkeys(self._state.keys() - found.keys())
        self._state = found
        if changed:
            for watcher in self._watchers:
                watcher.tell(changed)

    async def _instances(self) -> dict[str, Any]:
        limit = asyncio.Semaphore(_AT_ONCE)

        async def ask(service: str, identity: str) -> Pong | None:
            async with limit:
                try:
                    return await self._bus.live(service, identity, _TIMEOUT_S)
                except Fault as fault:
                    log.debug("%s %s: %s", service, identity, fault)
                    return None

        known = self._directory.instances
        pongs = await asyncio.gather(*(ask(*key) for key in known))
        found: dict[str, Any] = {}
        clients: dict[str, Arrival] = {}
        for (key, instance), pong in zip(known.items(), pongs, strict=True):
            shown = _instance(*key, instance.started_ms, pong)
            found[f"instance/{key[0]}/{key[1]}"] = msgspec.to_builtins(shown)
            for wait in chain.from_iterable(map(waits_of_part, shown.parts)):
                found |= _wait(*wait)
            if pong is not None:
                clients |= {arrival.id: arrival for arrival in arrivals_of(pong.parts)}
        latest = sorted(clients.values(), key=lambda one: (one.at_ms, one.id))[-MOST:]
        found |= {f"client/{one.id}": msgspec.to_builtins(one) for one in latest}
        return found

    def _away(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for absence in self._directory.absences:
            found[f"away/{absence.service}"] = str(absence)
            found |= _wait("away", absence.service, str(absence), command="searchbus doctor")
        return found

    async def _attached(self) -> dict[str, Any]:
        if not self._directory.present(_ATTACH):
            return {}
        try:
            status = await self._bus.request(
                self._bus.subjects.endpoint(_ATTACH, "status"), StatusRequest(), StatusReply,
                service=_ATTACH, timeout_s=_TIMEOUT_S,
            )  # fmt: skip
        except Fault as fault:
            return _wait("failed", _ATTACH, fault.failure.message)
        found = {f"attached/{one.name}": msgspec.to_builtins(one) for one in status.servers}
        for wait in waits_of_attached(status):
            found |= _wait(*wait)
        return found

    async def _held_definitions(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for held in await asyncio.to_thread(self._held.now):
            if not held.held.refused:
                found |= _wait(*held.wait, digits=held.held.digits)
        return found


class _Watcher:
    def __init__(self, everything: bool) -> None:
        self._everything = everything
        self._pending: dict[str, Any] = {}
        self._wake = asyncio.Event()

    def tell(self, changed: Mapping[str, Any]) -> None:
        """Keep what changed until it is sent: a slow reader gets the latest values only."""
        if not self._everything:
            changed = {key: changed[key] for key in (OPEN_TO_ALL,) if key in changed}
        if changed:
            self._pending.update(changed)
            self._wake.set()

    async def changes(self) -> dict[str, Any]:
        """What changed since the last time, once something has."""
        await self._wake.wait()
        self._wake.clear()
        found, self._pending = self._pending, {}
        return found


def _instance(service: str, identity: str, started_ms: int, pong: Pong | None) -> Instance:
    if pong is None:
        return Instance(service=service, instance=identity, started_ms=started_ms, answers=False)
    return Instance(
        service=service, instance=identity, started_ms=started_ms, version=shown(pong.version),
        in_flight=pong.in_flight, limit=pong.limit, waiting=pong.waiting, shed=pong.shed,
        parts=tuple(
            msgspec.structs.replace(part, name=shown(part.name), state=shown(part.state))
            for part in pong.parts
            if part.kind != KIND
        ),
    )  # fmt: skip


def _wait(
    kind: str, name: str, text: str, command: str = "", *, digits: str = ""
) -> dict[str, Any]:
    """`kind`: held, attached_held, failed, sign_in, away, key or file; `command`: what does the
    same in a terminal; `digits`: of a held definition."""
    waiting = {"kind": kind, "name": shown(name), "text": shown(text)}
    return {f"wait/{kind}/{digits or name}": {**waiting, "command": command, "digits": digits}}


def shown(text: str) -> str:
    """Text that others wrote: visible, on one line, of limited length."""
    line = " ".join(visible(text).split())
    return line if len(line) <= _MAX_CHARS else line[: _MAX_CHARS - 1] + "…"

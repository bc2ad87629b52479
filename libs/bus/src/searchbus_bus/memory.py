"""A broker in memory: subjects, queue groups, statuses and limits as in NATS, in one process.

For tests and for running everything in one process: `edge, worker = broker.connect(), …`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from searchbus_contracts import DEFAULT_PREFIX, ErrorCode, Fault

from .bus import Bus
from .store.keyvalue import MemoryKeyValue
from .tasks import wait_for_event
from .transport import PENDING_LIMIT, Callback, DirectCallback, Message, ServiceRecord

_TURNS_OF_A_REPLY = 16
"""Turns of the event loop, generously: a message takes two, the callback one, its reply two."""


@lru_cache(maxsize=8192)
def _matches(pattern: str, subject: str) -> bool:
    wanted, given = pattern.split("."), subject.split(".")
    for position, part in enumerate(wanted):
        if part == ">":
            return len(given) > position
        if position >= len(given) or part not in ("*", given[position]):
            return False
    return len(wanted) == len(given)


class _Subscription:
    def __init__(
        self, owner: _MemoryTransport, subject: str, callback: Callback, queue: str
    ) -> None:
        self.owner = owner
        self.subject = subject
        self.start = subject.partition("*")[0].partition(">")[0]
        """Every subject that it matches begins so."""
        self.queue = queue
        self._callback = callback
        self._pending: asyncio.Queue[Message] = asyncio.Queue(PENDING_LIMIT)
        self._task = asyncio.get_running_loop().create_task(self._run())

    def put(self, message: Message) -> None:
        try:
            self._pending.put_nowait(message)
        except asyncio.QueueFull:
            self.owner.async_errors += 1

    async def _run(self) -> None:
        while True:
            message = await self._pending.get()
            try:
                await self._callback(message)
            finally:
                self._pending.task_done()

    async def drain(self) -> None:
        self.owner.broker.subscriptions.discard(self)
        await self._pending.join()
        self._task.cancel()

    async def unsubscribe(self) -> None:
        self.owner.broker.subscriptions.discard(self)
        self._task.cancel()


class _Announcement:
    def __init__(self, instance: str, subscriptions: list[_Subscription]) -> None:
        self.instance = instance
        self._subscriptions = subscriptions

    async def withdraw(self) -> None:
        for subscription in self._subscriptions:
            await subscription.unsubscribe()


class MemoryBroker:
    """Routes messages between the connections made by `connect`."""

    def __init__(self, *, max_payload_bytes: int = 1024 * 1024) -> None:
        self.max_payload_bytes = max_payload_bytes
        self.subscriptions: set[_Subscription] = set()
        self.buckets: dict[str, MemoryKeyValue] = {}
        self.ids = itertools.count(1)
        """For inboxes and instances, counted per broker, so that a run can be repeated."""

    def connect(self, *, name: str = "memory", prefix: str = DEFAULT_PREFIX, **options: Any) -> Bus:
        """A new connection; for the options see Bus."""
        return Bus(_MemoryTransport(self), name=name, prefix=prefix, **options)

    def route(self, message: Message) -> None:
        """Deliver to every plain subscription and to one member of each queue group."""
        groups: dict[str, list[_Subscription]] = {}
        reached = False
        for subscription in list(self.subscriptions):
            # Most differ in their first characters.
            if (
                not message.subject.startswith(subscription.start)
                or not subscription.owner.connected
                or not _matches(subscription.subject, message.subject)
            ):
                continue
            reached = True
            if subscription.queue:
                groups.setdefault(subscription.queue, []).append(subscription)
            else:
                subscription.put(message)
        for members in groups.values():
            random.choice(members).put(message)  # noqa: S311  (load spreading, no secret)
        if not reached and message.reply:
            self.route(Message(subject=message.reply, data=b"", headers={"Status": "503"}))


class _MemoryTransport:
    fault = ""

    def __init__(self, broker: MemoryBroker) -> None:
        self.broker = broker
        self.max_payload_bytes = broker.max_payload_bytes
        self.async_errors = 0
        self._up = asyncio.Event()
        self._up.set()
        self._lost_at_s = 0.0
        self._listeners: list[Callable[[], None]] = []

    @property
    def connected(self) -> bool:
        return self._up.is_set()

    @property
    def away_s(self) -> float:
        return 0.0 if self.connected else time.monotonic() - self._lost_at_s

    @property
    def tried_all(self) -> bool:
        return not self.connected

    def new_inbox(self) -> str:
        return f"_INBOX.m{next(self.broker.ids)}"

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        self._listeners.append(callback)

    def sever(self) -> None:
        """Lose the connection, as in a network fault; `restore` connects again."""
        self._up.clear()
        self._lost_at_s = time.monotonic()
        for listener in self._listeners:
            listener()

    def restore(self) -> None:
        """Connect again."""
        self._up.set()

    async def wait_connected(self, timeout_s: float) -> bool:
        return await wait_for_event(self._up, timeout_s)

    async def publish(
        self, subject: str, data: bytes, *, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        if not self.connected or len(data) > self.max_payload_bytes:
            raise Fault(
                ErrorCode.UNAVAILABLE, "The message bus is not reachable. Try again shortly."
            )
        self.broker.route(
            Message(subject=subject, data=data, reply=reply, headers=dict(headers or {}))
        )

    async def subscribe(
        self, subject: str, callback: Callback, *, queue: str = ""
    ) -> _Subscription:
        subscription = _Subscription(self, subject, callback, queue)
        self.broker.subscriptions.add(subscription)
        return subscription

    async def subscribe_directly(
        self, subject: str, callback: DirectCallback, *, queue: str = ""
    ) -> _Subscription:
        async def deliver(message: Message) -> None:
            callback(message)

        return await self.subscribe(subject, deliver, queue=queue)

    async def announce(self, record: ServiceRecord) -> _Announcement:
        instance = f"M{next(self.broker.ids)}"

        async def on_request(message: Message) -> None:
            kind = {"type": "io.nats.micro.v1.info_response", "id": instance}
            if message.reply:
                await self.publish(message.reply, json.dumps({**kind, **asdict(record)}).encode())

        scopes = ("", f".{record.name}", f".{record.name}.{instance}")
        subscriptions = [await self.subscribe(f"$SRV.INFO{s}", on_request) for s in scopes]
        return _Announcement(instance, subscriptions)

    async def key_value(self, bucket: str, *, ttl_s: float | None, **limits: Any) -> MemoryKeyValue:
        return self.broker.buckets.setdefault(bucket, MemoryKeyValue(ttl_s=ttl_s))

    async def replies_arrived(self, window_s: float, complete: asyncio.Event) -> None:
        for _ in range(_TURNS_OF_A_REPLY):
            await asyncio.sleep(0)

    async def flush(self, timeout_s: float = 2.0) -> None:
        await asyncio.sleep(0)

    async def close(self) -> None:
        self._up.clear()
        for subscription in [s for s in self.broker.subscriptions if s.owner is self]:
            await subscription.unsubscribe()

"""The requests that a worker receives: the subjects of its queue group, and how many it holds.

A worker at its limit lets a few requests wait for a moment: at a load of exactly its capacity, one
without a queue refuses a fifth of them. It refuses at once what would wait too long, so that the
caller can ask another worker. Of slots and places in the queue one caller has a share (shares.py).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from msgspec import Struct

from searchbus_contracts import Actor, ErrorCode, Fault, decode
from searchbus_contracts.headers import ACK_MS, ACTOR, MAX_ACTOR_CHARS

from .. import telemetry
from ..client.request import Deadline
from ..tasks import Background
from ..transport import Message, Subscription, Transport
from .handling import Handler, Replies, cancelled_fault, req_id_of, stopping_fault
from .shares import share
from .worker import Worker

log = logging.getLogger("searchbus.bus")

MAX_WAIT_S = 0.5
"""A request that would wait longer for a slot is refused."""
_LOOK_EVERY_S = 0.1
_LATE_S = 0.1
"""A timer that comes later shows that this process stood still."""
_WEIGHT_OF_LATEST = 0.05
"""Weight of the latest request in the average of the durations."""


@dataclass(slots=True)
class _Served:
    handler: Handler
    stays: bool
    group: Subscription | None = None
    own: Subscription | None = None

    async def drain(self) -> None:
        found = [subscription for subscription in (self.group, self.own) if subscription]
        self.group = self.own = None
        await asyncio.gather(*(subscription.drain() for subscription in found))


class Membership:
    """The subjects on which a worker receives requests: in its queue group, and at its instance.

    A worker on standby leaves the queue group and joins it again. What stays it goes on serving:
    its catalogue, which any worker of the service sends. Changes wait for each other.

    Args:
        receive: called with every message and the handler of its subject; must not raise.
        endpoints: receives the subjects as `$SRV.INFO` lists them.
    """

    def __init__(
        self,
        worker: Worker,
        transport: Transport,
        receive: Callable[[Message, Handler], None],
        endpoints: list[dict[str, Any]],
    ) -> None:
        self._group = worker.service
        self._transport = transport
        self._receive = receive
        self._endpoints = endpoints
        self._served: dict[str, _Served] = {}
        self._own_subject: Callable[[str], str] | None = None
        self._joined = True
        self._changing = asyncio.Lock()

    async def add(self, subject: str, handler: Handler, *, stays: bool = False) -> None:
        """Serve a subject; on standby only one that stays, the others once the worker joins."""
        async with self._changing:
            if subject not in self._served:
                self._served[subject] = _Served(handler, stays)
                name = "-".join(t for t in subject.split(".")[2:] if t not in "*>") or "root"
                described = {"name": name, "subject": subject, "queue_group": self._group}
                self._endpoints.append({**described, "metadata": {}})
            await self._subscribe(subject)

    async def remove(self, subject: str) -> None:
        """Serve a subject no more; requests already received are still answered."""
        async with self._changing:
            self._endpoints[:] = [e for e in self._endpoints if e["subject"] != subject]
            await self._served.pop(subject).drain()

    async def receive_own(self, own_subject: Callable[[str], str]) -> None:
        """Receive requests sent to this instance, too: its subject, by that of the queue group."""
        async with self._changing:
            self._own_subject = own_subject
            await self._subscribe(*self._served)

    async def leave(self) -> None:
        """Leave the queue group; requests already received are still answered."""
        async with self._changing:
            self._joined = False
            for served in self._served.values():
                if not served.stays:
                    await served.drain()

    async def join(self) -> None:
        """Join the queue group again."""
        async with self._changing:
            self._joined = True
            await self._subscribe(*self._served)

    async def end(self) -> None:
        """Serve nothing any more."""
        async with self._changing:
            self._joined = False
            await asyncio.gather(*(served.drain() for served in self._served.values()))
            self._served.clear()

    async def _subscribe(self, *subjects: str) -> None:
        """Make the subscriptions of subjects that are missing."""
        for subject in subjects:
            served = self._served[subject]
            if not (self._joined or served.stays):
                continue
            if served.group is None:
                served.group = await self._receiving(subject, served.handler, queue=self._group)
            if served.own is None and not served.stays and self._own_subject is not None:
                served.own = await self._receiving(self._own_subject(subject), served.handler)

    async def _receiving(self, subject: str, handler: Handler, *, queue: str = "") -> Subscription:
        return await self._transport.subscribe_directly(
            subject, lambda message: self._receive(message, handler), queue=queue
        )


@dataclass(slots=True, eq=False)
class _Held:
    """A request that a worker holds for a caller since `since_s` (the loop's clock); whether the
    caller cancelled it, and knows which instance has it (`acknowledged`)."""

    message: Message
    handler: Handler
    since_s: float
    caller: str | None
    cancelled: bool = False
    acknowledged: bool = False


class Admission:
    """Starts requests, lets some wait, refuses the rest (`shed`); `instance` acknowledges those
    that take long."""

    def __init__(
        self, worker: Worker, replies: Replies, handle: Callable[..., Awaitable[None]]
    ) -> None:
        self.shed = 0
        self.instance = ""
        self._worker = worker
        self._replies = replies
        self._handle = handle
        self._running: dict[asyncio.Task[None], _Held] = {}
        self._slots: Counter[str | None] = Counter()
        """How many run, by caller."""
        self._waiting: dict[_Held, asyncio.TimerHandle] = {}
        """In the order they came; the timers end their wait."""
        self._average_s = 0.0
        self._background = Background()
        self._look: asyncio.TimerHandle | None = None

    @property
    def in_flight(self) -> int:
        """Requests being handled now."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests that wait for a slot."""
        return len(self._waiting)

    def admit(self, message: Message, handler: Handler) -> None:
        """Start a request, let it wait, or refuse it with `overloaded`."""
        loop = asyncio.get_running_loop()
        held = _Held(message, handler, loop.time(), _caller_of(message))
        if self._look is None:
            self._look = loop.call_later(_LOOK_EVERY_S, self._look_for_waiting)
        if self._may_start(held):
            self._start(held)
        elif self._may_wait(held):
            self._waiting[held] = loop.call_later(MAX_WAIT_S, self._expire, held)
        else:
            self._background.start(self._refuse(held))

    async def cancel(self, req_id: str) -> None:
        """Stop the request of this id, if it is held."""
        for task, held in list(self._running.items()):
            if req_id_of(held.message) == req_id:
                held.cancelled = True
                task.cancel()
        waiting = [held for held in self._waiting if req_id_of(held.message) == req_id]
        for held in waiting:  # before the first answer, during which another could start
            self._stop_waiting(held)
        for held in waiting:
            await self._replies.fail(held.message, cancelled_fault())

    async def drain(self, timeout_s: float) -> None:
        """Finish what is held; what takes longer than `timeout_s` is answered `unavailable`."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        while self._running and (left_s := end_s - loop.time()) > 0:
            await asyncio.wait(
                list(self._running), timeout=left_s, return_when=asyncio.FIRST_COMPLETED
            )
        while self._waiting:
            held = next(iter(self._waiting))
            self._stop_waiting(held)
            await self._replies.fail(held.message, stopping_fault())
        for task in list(self._running):
            task.cancel()
        if last := [*self._running, *self._background]:
            await asyncio.wait(last, timeout=2)

    def _may_start(self, held: _Held) -> bool:
        limit, used = self._worker.max_in_flight, len(self._running)
        return _has_place(held.caller, limit, used, self._slots[held.caller])

    def _may_wait(self, held: _Held) -> bool:
        waiting = len(self._waiting)
        of_caller = sum(other.caller == held.caller for other in self._waiting)
        if not _has_place(held.caller, self._worker.max_waiting, waiting, of_caller):
            return False
        expected_s = (waiting + 1) * self._average_s / self._worker.max_in_flight
        try:
            left_s = Deadline.from_headers(held.message.headers).remaining_s
        except Fault:
            return True  # the handling answers it
        return expected_s < min(MAX_WAIT_S, left_s)

    def _start(self, held: _Held) -> None:
        self._slots[held.caller] += 1
        task = asyncio.get_running_loop().create_task(self._run(held))
        self._running[task] = held
        task.add_done_callback(self._finished)

    async def _run(self, held: _Held) -> None:
        started_s = asyncio.get_running_loop().time()
        await self._handle(held.message, held.handler, cancelled=lambda: held.cancelled)
        took_s = asyncio.get_running_loop().time() - started_s
        self._average_s += (took_s - self._average_s) * _WEIGHT_OF_LATEST

    def _finished(self, task: asyncio.Task[None]) -> None:
        held = self._running.pop(task)
        self._slots[held.caller] -= 1
        if not self._slots[held.caller]:
            del self._slots[held.caller]
        if task.cancelled():  # before its first step, so that the handling did not answer it
            fault = cancelled_fault() if held.cancelled else stopping_fault()
            self._background.start(self._replies.fail(held.message, fault))
        elif task.exception() is not None:
            log.error("a request ended without a reply", exc_info=task.exception())
        # Whoever may start now: those who wait for their share hold nobody up.
        while (following := next(filter(self._may_start, self._waiting), None)) is not None:
            self._stop_waiting(following)
            self._start(following)

    def _expire(self, held: _Held, *, again: bool = False) -> None:
        """Refuse a request that has waited too long: the slots are slower than expected. Where this
        process stood still, a slot may be free in a moment."""
        loop, due_s = asyncio.get_running_loop(), self._waiting[held].when()
        if not again and loop.time() - due_s > _LATE_S:
            later = partial(self._expire, held, again=True)
            self._waiting[held] = loop.call_later(_LOOK_EVERY_S, later)
            return
        self._stop_waiting(held)
        self._background.start(self._refuse(held))

    async def _refuse(self, held: _Held) -> None:
        self.shed += 1
        telemetry.count_shed(self._worker.service)
        why = "is at its limit"
        if len(self._running) < self._worker.max_in_flight:
            why = "has as many requests of this caller as one may have at once"
        fault = Fault(
            ErrorCode.OVERLOADED,
            f"The {self._worker.service} service {why}. Try again shortly.",
            retry_after_ms=200,
        )
        await self._replies.fail(held.message, fault)

    async def acknowledge(self) -> None:
        """Name this instance to the callers of all requests that it holds, once to each."""
        for held in self._to_acknowledge(math.inf):
            await self._replies.acknowledge(held.message, self.instance)

    def _to_acknowledge(self, now_s: float) -> list[_Held]:
        """The requests that have waited as long as callers ask; from now on acknowledged."""
        found = []
        for held in (*self._running.values(), *self._waiting):
            after_ms = held.message.headers.get(ACK_MS, "")
            is_number = after_ms.isascii() and after_ms.isdigit()
            if held.acknowledged or not is_number or not self.instance:
                continue
            if (now_s - held.since_s) * 1000 >= int(after_ms[:6]):
                held.acknowledged = True
                found.append(held)
        return found

    def _look_for_waiting(self) -> None:
        """Acknowledge what takes long: one timer for all requests."""
        loop = asyncio.get_running_loop()
        for held in self._to_acknowledge(loop.time()):
            self._background.start(self._replies.acknowledge(held.message, self.instance))
        again = bool(self._running or self._waiting)
        self._look = loop.call_later(_LOOK_EVERY_S, self._look_for_waiting) if again else None

    def _stop_waiting(self, held: _Held) -> None:
        self._waiting.pop(held).cancel()


class _Caller(Struct):
    """The part of an `Actor` header that counts; its roles are not read before they are checked."""

    subject: str = Actor().subject


def _has_place(caller: str | None, limit: int, used: int, own: int) -> bool:
    """Whether another request of a caller that holds `own` of the `used` places gets one."""
    return used < limit if caller is None else own < share(limit, used)


def _caller_of(message: Message) -> str | None:
    """Whom a request counts for; those with a header that is refused count together. None: a
    service asks for itself, of all its callers, and has no share.

    No signature is checked yet: a request that only says to be another's is refused soon.
    """
    header = message.headers.get(ACTOR)
    if header is None:
        return None
    if len(header) > MAX_ACTOR_CHARS:
        return ""
    try:
        return decode(header.encode("utf-8", "replace"), _Caller).subject
    except Fault:
        return ""

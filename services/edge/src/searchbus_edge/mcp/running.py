"""Requests that run, so that `notifications/cancelled` finds them.

Revisions before 2026-07-28 cancel by a notification, an HTTP request of its own, which may reach
another edge. Without a session a request is known by its caller and its id. Clients that share a
caller (without access control: an address) may use the same id; then nothing is cancelled.

An edge that does not run the request passes the notification on, as a Cancel for the composites,
whose cancellations every edge receives. Its id is a hash with the key that edges share, so that it
names no caller, and no other service can make one.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from searchbus_bus import Bus, telemetry
from searchbus_bus.transport import Subscription
from searchbus_contracts import Cancel, Fault, decode

from ..auth.signing import StateKey, StateKeys
from ..http.answer import Answer
from .messages import RequestId

log = logging.getLogger("searchbus.edge")


@dataclass(slots=True)
class _Running:
    task: asyncio.Task[Any]
    answer: Answer
    cancelled: bool = False


@dataclass(slots=True)
class _Names:
    """Names of running requests, made once, at another edge's cancellation: one brings fifty."""

    unnamed: dict[tuple[str, RequestId], None] = field(default_factory=dict)
    key_of: dict[str, tuple[str, RequestId]] = field(default_factory=dict)
    name_of: dict[tuple[str, RequestId], str] = field(default_factory=dict)

    def forget(self, key: tuple[str, RequestId]) -> None:
        self.unnamed.pop(key, None)
        name = self.name_of.pop(key, None)
        if name is not None:
            del self.key_of[name]


class RunningRequests:
    """The requests of one edge; edges share the key, and cancellations reach all of `service`."""

    def __init__(self, bus: Bus, key: StateKey, *, service: str) -> None:
        self._bus = bus
        self._keys = StateKeys(key, "")
        self._subject = bus.subjects.cancel(service)
        self._events: Subscription | None = None
        self._running: dict[tuple[str, RequestId], list[_Running]] = {}
        self._names = _Names()

    async def start(self) -> None:
        """Receive what other edges pass on."""
        self._events = await self._bus.subscribe(self._subject, self._on_event)

    async def close(self) -> None:
        """Receive nothing more."""
        if self._events is not None:
            await self._events.unsubscribe()

    async def run(
        self, caller: str, request_id: RequestId, work: Coroutine[Any, Any, None], answer: Answer
    ) -> bool:
        """Await the work; False if `caller` (identity or address) cancelled it before `answer`."""
        task = asyncio.current_task()
        assert task is not None
        running = _Running(task, answer)
        same = self._running.setdefault((caller, request_id), [])
        if not same:
            self._names.unnamed[caller, request_id] = None
        same.append(running)
        try:
            await work
        except asyncio.CancelledError:
            # Our own cancellation ends here; one from outside goes on.
            if not running.cancelled or task.uncancel() > 0:
                raise
            return False
        finally:
            same.remove(running)
            if not same:
                del self._running[caller, request_id]
                self._names.forget((caller, request_id))
        return True

    async def cancel(self, caller: str, request_id: Any) -> None:
        """Cancel the caller's request of this id, here or at another edge."""
        if isinstance(request_id, bool) or not isinstance(request_id, int | str):
            return
        if (caller, request_id) in self._running:
            self._cancel((caller, request_id))
            return
        try:
            await self._bus.publish(self._subject, Cancel(req_id=self._name(caller, request_id)))
        except Fault:
            return  # without a bus no request runs elsewhere

    async def _on_event(self, subject: str, data: bytes) -> None:
        try:
            name = decode(data, Cancel).req_id
        except Fault as fault:
            telemetry.count_error("cancel")
            log.warning("a cancellation on %s is malformed and ignored: %s", subject, fault)
            return
        names = self._names
        while names.unnamed:
            key, _ = names.unnamed.popitem()
            names.name_of[key] = own = self._name(*key)
            names.key_of[own] = key
        found = names.key_of.get(name)
        if found is not None:
            self._cancel(found)

    def _cancel(self, key: tuple[str, RequestId]) -> None:
        same = self._running.get(key, [])
        if len(same) == 1 and not same[0].cancelled and not same[0].answer.finished:
            same[0].cancelled = True
            same[0].task.cancel()

    def _name(self, caller: str, request_id: RequestId) -> str:
        text = f"cancel\n{caller}\n{type(request_id).__name__}\n{request_id}"
        return hmac.new(
            self._keys.issuing(), text.encode("utf-8", "replace"), hashlib.sha256
        ).hexdigest()[:32]

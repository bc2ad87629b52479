"""The subjects on which a worker receives requests: in its queue group, and at its instance.

A worker on standby leaves the queue group and joins it again. What `stays` it goes on serving: its
catalogue, which any worker of the service sends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .handling import Handler
from .transport import Message, Subscription, Transport
from .worker import Worker

__all__ = ["Membership"]


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
    """One worker's part in its queue group. Changes wait for each other.

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
                self._endpoints.append(_endpoint(subject, self._group))
            await self._subscribe(subject)

    async def remove(self, subject: str) -> None:
        """Serve a subject no more; requests already received are still answered."""
        async with self._changing:
            self._endpoints[:] = [e for e in self._endpoints if e["subject"] != subject]
            await self._served.pop(subject).drain()

    async def receive_own(self, own_subject: Callable[[str], str]) -> None:
        """Receive requests that are sent to this instance, too.

        Args:
            own_subject: the subject of requests to this instance, by the queue group's subject.
        """
        async with self._changing:
            self._own_subject = own_subject
            for subject in self._served:
                await self._subscribe(subject)

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
            for subject in self._served:
                await self._subscribe(subject)

    async def end(self) -> None:
        """Serve nothing any more."""
        async with self._changing:
            self._joined = False
            await asyncio.gather(*(served.drain() for served in self._served.values()))
            self._served.clear()

    async def _subscribe(self, subject: str) -> None:
        """Make the subscriptions of a subject that are missing."""
        served = self._served[subject]
        if not (self._joined or served.stays):
            return
        if served.group is None:
            served.group = await self._receiving(subject, served.handler, queue=self._group)
        if served.own is None and not served.stays and self._own_subject is not None:
            served.own = await self._receiving(self._own_subject(subject), served.handler)

    async def _receiving(self, subject: str, handler: Handler, *, queue: str = "") -> Subscription:
        return await self._transport.subscribe_directly(
            subject, lambda message: self._receive(message, handler), queue=queue
        )


def _endpoint(subject: str, group: str) -> dict[str, Any]:
    name = "-".join(t for t in subject.split(".")[2:] if t not in "*>") or "root"
    return {"name": name, "subject": subject, "queue_group": group, "metadata": {}}

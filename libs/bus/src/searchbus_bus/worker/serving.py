"""A worker on the bus: its subscriptions, its limit, cancellation, discovery and the drain.

Order of a drain, which loses no request: leave discovery → drain each subscription → wait for the
tasks → cancel the rest, which reply `unavailable` → flush.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Literal

import msgspec

from searchbus_contracts import (
    ACKS_KEY,
    CATALOG_KEY,
    CONTRACT_KEY,
    Cancel,
    Catalog,
    CatalogEvent,
    CatalogRequest,
    ErrorCode,
    Fault,
    Ping,
    Pong,
    Subjects,
    ToolCall,
    decode,
    encode,
)
from searchbus_contracts.catalog import CONTRACT_VERSION
from searchbus_contracts.subjects import INBOX

from .. import telemetry
from ..client.discovery import EVERYONE
from ..client.requester import Requester
from ..identity import ActorVerifier
from ..live import live_parts
from ..telemetry import LiveGauge
from ..transport import (
    Announcement,
    Message,
    ServiceRecord,
    Subscription,
    Transport,
    publish_or_log,
)
from .catalog_parts import OfferedCatalog
from .handling import Handler, Handling, Replies
from .intake import Admission, Membership
from .toolset import Call
from .worker import Worker

log = logging.getLogger("searchbus.bus")


class Serving:
    """A worker on the bus, from `Bus.serve` to `drain`; `unanswerable` messages are ignored."""

    def __init__(
        self,
        worker: Worker,
        transport: Transport,
        requester: Requester,
        subjects: Subjects,
        verifier: ActorVerifier | None = None,
    ) -> None:
        self.worker = worker
        self.instance = ""
        self.unanswerable = 0
        self._transport = transport
        self._replies = Replies(transport, requester.inbox)
        self._requester = requester
        self._handling = Handling(worker, self._replies, requester, verifier)
        self._subjects = subjects
        self._admission = Admission(worker, self._replies, self._handling.handle)
        self._control: list[Subscription] = []
        self._announcement: Announcement | None = None
        self._record = ServiceRecord(worker.service, worker.version, worker.description, {}, [])
        self._membership = Membership(worker, transport, self._accept, self._record.endpoints)
        self._offered = OfferedCatalog(Catalog(service=worker.service))
        self._served: dict[str, Handler] = {}
        self._refreshing = asyncio.Lock()
        self._drained = False
        self._left_out = False
        """Whether it was logged that a reader of another version leaves this worker out."""

    @property
    def served(self) -> int:
        """Requests handled so far."""
        return self._handling.handled

    @property
    def in_flight(self) -> int:
        """Requests being handled now."""
        return self._admission.in_flight

    @property
    def shed(self) -> int:
        """Requests refused because the worker was at its limit."""
        return self._admission.shed

    async def start(self) -> None:
        """Subscribe, then appear in discovery."""
        service = self.worker.service
        for verb, endpoint in self.worker.endpoints.items():
            await self._membership.add(self._subjects.endpoint(service, verb), endpoint)
        await self._offer()
        cancel = self._subjects.cancel(service)
        self._control.append(await self._transport.subscribe(cancel, self._on_cancel))
        self._control.append(await self._transport.subscribe(EVERYONE, self._on_discovery))
        started_ms = time.time_ns() // 10**6
        self._record.metadata.update(
            {CONTRACT_KEY: CONTRACT_VERSION, ACKS_KEY: "1", "started_ms": str(started_ms)}
        )
        telemetry.count_shed(service, 0)
        _in_flight.watch(self)
        _limit.watch(self)
        self._announcement = await self._transport.announce(self._record)
        self.instance = self._admission.instance = self._announcement.instance
        await self._membership.receive_own(lambda work: self._subjects.at(self.instance, work))
        ping = self._subjects.ping(service, self.instance)
        self._control.append(await self._transport.subscribe(ping, self._on_ping))
        # Subscriptions must exist before the worker is announced.
        await self._transport.flush()
        await self._announce("up")

    async def refresh(self) -> None:
        """Announce that the worker's tools, prompts or resources changed.

        A worker that stepped out, or drains, gets no requests for new tools either.
        """
        async with self._refreshing:
            if self._drained:
                return
            digest, served = self._offered.digest, self._served
            await self._offer()
            await self._transport.flush()
            await self._announce("changed")
            if digest != self._offered.digest:
                await self._membership.remove(self._subjects.catalog(self.worker.service, digest))
            # Another service may offer them now.
            for subject in served.keys() - self._served.keys():
                await self._membership.remove(subject)

    async def healthy(self, timeout_s: float = 1.0) -> bool:
        """Whether a ping is answered in time; True without NATS, where no restart would help."""
        answers = await self._requester.answers(self.worker.service, self.instance, timeout_s)
        return answers or not self._transport.connected

    async def step_out(self) -> None:
        """Leave the queue group; requests already received are still answered."""
        await self._membership.leave()
        await self._transport.flush()

    async def step_in(self) -> None:
        """Join the queue group again."""
        if not self._drained:
            await self._membership.join()
            await self._transport.flush()

    async def drain(self, timeout_s: float = 10.0) -> None:
        """Stop receiving, finish for `timeout_s`, answer the rest `unavailable`, leave the bus."""
        if self._drained:
            return
        self._drained = True
        async with self._refreshing:  # its event would say that this worker is there
            if self._announcement is not None:
                await self._announce("down")
                await self._announcement.withdraw()
        await self._membership.end()
        await self._admission.drain(timeout_s)
        # Until the last request ended, its caller may ping this instance and cancel.
        await asyncio.gather(*(subscription.drain() for subscription in self._control))
        await self._transport.flush()

    async def _offer(self) -> None:
        """Serve the catalogue as it is now, under its hash, and what it offers."""
        # In a thread: a catalogue of thousands takes a while.
        self._offered = await asyncio.to_thread(lambda: OfferedCatalog(self.worker.catalog))
        subject = self._subjects.catalog(self.worker.service, self._offered.digest)
        await self._membership.add(subject, self._reply_catalog, stays=True)
        self._served = self._handlers()
        for wanted, handler in self._served.items():
            await self._membership.add(wanted, handler)
        self._record.metadata[CATALOG_KEY] = self._offered.digest

    def _handlers(self) -> dict[str, Handler]:
        """Subject → handler of the tools, resources and prompts that are offered now."""
        toolsets = {tool.toolset for tool in self._offered.catalog.tools}
        found: dict[str, Handler] = {self._subjects.toolset(t): self._call_tool for t in toolsets}
        subject = {"resource": self._subjects.resource, "prompt": self._subjects.prompt}
        for family, toolset, verb in self.worker.content_endpoints:
            found[subject[family](toolset, verb)] = self._use_content
        return found

    async def _use_content(self, call: Call, body: bytes) -> Any:
        family, toolset, verb = call.subject.split(".")[-3:]
        endpoint = self.worker.content_endpoints.get((family, toolset, verb))
        if endpoint is None:
            raise Fault(
                ErrorCode.NOT_FOUND,
                "This service does not offer that any more. List the tools again.",
            )
        return await endpoint(call, body)

    async def _reply_catalog(self, call: Call, body: bytes) -> Catalog:
        return await asyncio.to_thread(self._offered.reply, decode(body, CatalogRequest))

    async def _call_tool(self, call: Call, body: bytes) -> Any:
        request = decode(body, ToolCall)
        # One subscription per toolset (`tool.<toolset>.*`): the subject names the tool.
        toolset, name = call.subject.split(".")[-2:]
        tool = self.worker.find_tool(toolset, name)
        if tool is not None and request.tool == name:
            return await tool(call, request)
        raise Fault(
            ErrorCode.NOT_FOUND, "This service offers no tool of that name. List the tools again."
        )

    async def _announce(self, event: Literal["up", "changed", "down"]) -> None:
        message = CatalogEvent(
            event=event,
            service=self.worker.service,
            instance=self.instance,
            catalog=self._offered.digest,
            metadata=self._record.metadata,
        )
        subject = self._subjects.catalog_event(self.worker.service)
        what = f"the event that {self.worker.service} is {event}"
        await publish_or_log(self._transport, subject, encode(message), what)

    async def _on_ping(self, message: Message) -> None:
        # Outside the limit: a worker at its limit is busy, not unhealthy.
        if message.reply.startswith(INBOX):
            # First: who pings may conclude that this worker has no other request of theirs.
            await self._admission.acknowledge()
            await self._replies.reply(message, encode(self._pong(message)))

    def _pong(self, message: Message) -> Pong:
        pong = Pong(instance=self.instance, in_flight=self.in_flight)
        try:
            asked = decode(message.data, Ping)
        except Fault:  # whoever pings in any way sees that this worker responds
            return pong
        if not asked.parts:
            return pong
        return msgspec.structs.replace(
            pong, limit=self.worker.max_in_flight, waiting=self._admission.waiting,
            shed=self.shed, version=self.worker.version,
            parts=live_parts() if self.worker.shows_parts else (),
        )  # fmt: skip

    async def _on_discovery(self, message: Message) -> None:
        """The transport replies; here only the asker's version of the wire is read."""
        version = message.headers.get(CONTRACT_KEY, CONTRACT_VERSION)
        if version != CONTRACT_VERSION and not self._left_out:
            self._left_out = True
            log.warning(
                "this worker, %s, uses version %s of the wire, an edge on the bus %.16r: that edge "
                "leaves its tools out. Run one release of searchbus on a bus.",
                self.worker.service,
                CONTRACT_VERSION,
                version,
            )

    async def _on_cancel(self, message: Message) -> None:
        try:
            req_id = decode(message.data, Cancel).req_id
        except Fault as fault:
            telemetry.count_error("cancel")
            log.warning("a cancellation on %s is malformed and ignored: %s", message.subject, fault)
            return
        await self._admission.cancel(req_id)

    def _accept(self, message: Message, handler: Handler) -> None:
        # Published with this worker's permissions: never to a subject of requests or the store.
        if message.reply.startswith(INBOX):
            self._admission.admit(message, handler)
        else:
            self.unanswerable += 1


_in_flight: LiveGauge[Serving] = LiveGauge(
    telemetry.meter,
    "searchbus.worker.in_flight",
    lambda serving: [(serving.in_flight, {"worker": serving.worker.service})],
    description="Requests that workers of this process handle now.",
)
_limit: LiveGauge[Serving] = LiveGauge(
    telemetry.meter,
    "searchbus.worker.limit",
    lambda serving: [(serving.worker.max_in_flight, {"worker": serving.worker.service})],
    description="How many requests a worker handles at once before it refuses others.",
)

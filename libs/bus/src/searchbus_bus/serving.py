"""The worker's side: one task a request, bounded, shed, cancelled and drained.

Order of a drain, measured to lose nothing: out of discovery → drain each subscription → wait for
the tasks → cancel the rest, which answer `unavailable` → flush.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from msgspec import Raw

from searchbus_contracts import (
    CATALOG_KEY,
    CONTRACT_KEY,
    Actor,
    Cancel,
    Catalog,
    CatalogEvent,
    CatalogRequest,
    ErrorCode,
    Fault,
    Parts,
    Ping,
    Pong,
    Subjects,
    ToolCall,
    decode,
    encode,
)
from searchbus_contracts.headers import (
    ACTOR,
    ACTOR_SIG,
    PARTS,
    REQ_ID,
)

from . import telemetry
from .call import Call
from .deadline import Deadline
from .identity import ActorVerifier, received_signature
from .metrics import LiveGauge
from .parts import Assembly
from .replies import Replies
from .request import Request
from .requests import Requester
from .transport import Announcement, Message, ServiceRecord, Subscription, Transport
from .worker import Worker

__all__ = ["Serving"]

log = logging.getLogger("searchbus.bus")
Answer = Callable[[Call, bytes], Awaitable[Any]]


class Serving:
    """A worker that is being served. Made by `Bus.serve`, ended by `drain`."""

    def __init__(
        self,
        worker: Worker,
        transport: Transport,
        requester: Requester,
        subjects: Subjects,
        verifier: ActorVerifier | None = None,
    ) -> None:
        self._verifier = verifier
        self.worker = worker
        self.instance = ""
        self.served = 0
        self.shed = 0
        self.unanswerable = 0
        self._transport = transport
        self._replies = Replies(transport)
        self._requester = requester
        self._subjects = subjects
        self._tasks: dict[asyncio.Task[None], str] = {}
        self._cancelled: set[str] = set()
        self._subscriptions: dict[str, Subscription] = {}
        self._work: dict[str, Answer] = {}
        self._announcement: Announcement | None = None
        self._record = ServiceRecord(worker.service, worker.version, worker.description, {}, [])
        self._catalog: Catalog = worker.catalog
        self._drained = False

    @property
    def in_flight(self) -> int:
        """Requests being handled now."""
        return len(self._tasks)

    async def start(self) -> None:
        """Subscribe, then appear in discovery."""
        service = self.worker.service
        for verb, endpoint in self.worker.endpoints.items():
            await self._listen_for_work(self._subjects.endpoint(service, verb), endpoint)
        for toolset, readers in self.worker.resource_readers.items():
            for verb, endpoint in readers.items():
                await self._listen_for_work(self._subjects.resource(toolset, verb), endpoint)
        await self._listen_to_catalog()
        cancel = self._subjects.cancel(service)
        self._subscriptions[cancel] = await self._transport.subscribe(cancel, self._on_cancel)
        self._record.metadata.update(
            {
                CONTRACT_KEY: "v1",
                CATALOG_KEY: self._digest,
                "started_ms": str(time.time_ns() // 10**6),
            }
        )
        _in_flight.watch(self)
        _limit.watch(self)
        self._announcement = await self._transport.announce(self._record)
        self.instance = self._announcement.instance
        ping = self._subjects.ping(self.instance)
        self._subscriptions[ping] = await self._transport.subscribe(ping, self._on_ping)
        # Subscriptions must stand before anyone is told to use them.
        await self._transport.flush()
        await self._tell("up")

    async def refresh(self) -> None:
        """Tell the others that the worker's tools, prompts or resources changed."""
        self._catalog = self.worker.catalog
        await self._listen_to_catalog()
        self._record.metadata[CATALOG_KEY] = self._digest
        await self._transport.flush()
        await self._tell("changed")

    async def healthy(self, timeout_s: float = 1.0) -> bool:
        """Whether a request to this very instance is answered in time.

        True while the server is away: a restart would not bring it back, and readiness tells.
        """
        if not self._transport.connected:
            return True
        try:
            with telemetry.untraced():
                ping = Request(
                    self._subjects.ping(self.instance),
                    Ping(),
                    Pong,
                    service=self.worker.service,
                    timeout_s=timeout_s,
                )
                await self._requester.send(ping)
        except Fault:
            return not self._transport.connected
        return True

    async def step_out(self) -> None:
        """Leave the queue group for a while; what was received is still answered."""
        for subject in [s for s in self._subscriptions if s in self._work]:
            await self._subscriptions.pop(subject).drain()
        await self._transport.flush()

    async def step_in(self) -> None:
        """Be one of the queue group again."""
        if not self._drained:
            for subject, answer in list(self._work.items()):
                await self._listen(subject, answer)
            await self._transport.flush()

    async def drain(self, timeout_s: float = 10.0) -> None:
        """Answer what was received, take nothing new, and leave.

        Args:
            timeout_s: how long running requests may take; the rest is answered `unavailable`.
        """
        if self._drained:
            return
        self._drained = True
        if self._announcement is not None:
            await self._tell("down")
            await self._announcement.withdraw()
        await asyncio.gather(*(s.drain() for s in self._subscriptions.values()))
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=timeout_s)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=2)
        await self._transport.flush()

    @property
    def _digest(self) -> str:
        return self._catalog.digest

    async def _listen(self, subject: str, answer: Answer, queue: str | None = None) -> None:
        if subject in self._subscriptions:
            return

        async def on_message(message: Message) -> None:
            await self._accept(message, answer)

        group = self.worker.service if queue is None else queue
        self._subscriptions[subject] = await self._transport.subscribe(
            subject, on_message, queue=group, pending_limit=max(1024, 2 * self.worker.max_in_flight)
        )
        if all(endpoint["subject"] != subject for endpoint in self._record.endpoints):
            self._record.endpoints.append(_endpoint(subject, group))

    async def _listen_for_work(self, subject: str, answer: Answer) -> None:
        self._work[subject] = answer
        await self._listen(subject, answer)

    async def _listen_to_catalog(self) -> None:
        await self._listen(self._subjects.catalog(self._digest), self._describe)
        for toolset in {tool.toolset for tool in self._catalog.tools}:
            await self._listen_for_work(self._subjects.toolset(toolset), self._call_tool)

    async def _describe(self, call: Call, body: bytes) -> Catalog:
        decode(body, CatalogRequest)
        return self._catalog

    async def _call_tool(self, call: Call, body: bytes) -> Any:
        request = decode(body, ToolCall)
        # One subscription a toolset (`tool.<toolset>.*`): the subject tells which tool.
        toolset, name = call.subject.split(".")[-2:]
        tool = self.worker.find_tool(toolset, name)
        if tool is not None and request.tool == name:
            return await tool(call, request)
        raise Fault(ErrorCode.NOT_FOUND, "This service offers no tool of that name.")

    async def _tell(self, event: Literal["up", "changed", "down"]) -> None:
        message = CatalogEvent(
            event=event,
            service=self.worker.service,
            instance=self.instance,
            catalog=self._digest,
        )
        try:
            await self._transport.publish(self._subjects.catalog_events(), encode(message))
        except Fault:
            log.debug("nobody could be told that %s is %s", self.worker.service, event)

    async def _on_ping(self, message: Message) -> None:
        # Not one of the requests: a worker at its limit is busy, not ill.
        if message.reply:
            pong = Pong(instance=self.instance, in_flight=self.in_flight)
            try:
                await self._replies.reply(message, encode(pong))
            except Fault:
                log.debug("a ping could not be answered")

    async def _on_cancel(self, message: Message) -> None:
        try:
            req_id = decode(message.data, Cancel).req_id
        except Fault:
            return
        for task, running in list(self._tasks.items()):
            if running == req_id:
                self._cancelled.add(req_id)
                task.cancel()

    async def _accept(self, message: Message, answer: Answer) -> None:
        # Runs inside the subscription: whatever leaves here would end it. No await but a reply.
        try:
            if not message.reply:
                self.unanswerable += 1
                return
            if len(self._tasks) >= self.worker.max_in_flight:
                self.shed += 1
                telemetry.count_shed(self.worker.service)
                await self._replies.fail(
                    message,
                    Fault(
                        ErrorCode.OVERLOADED,
                        f"The {self.worker.service} service is at its limit. Try again shortly.",
                        retry_after_ms=200,
                    ).failure,
                )
                return
            task = asyncio.get_running_loop().create_task(self._handle(message, answer))
            self._tasks[task] = message.headers.get(REQ_ID, "")[:64]
            task.add_done_callback(self._finished)
        except Exception:
            log.exception("a message on %s could not be accepted", message.subject)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._cancelled.discard(self._tasks.pop(task, ""))
        if not task.cancelled() and task.exception() is not None:
            log.error("a request ended without an answer", exc_info=task.exception())

    async def _handle(self, message: Message, answer: Answer) -> None:
        started_s = time.perf_counter()
        code = "ok"
        name = ".".join(message.subject.split(".")[2:])
        with telemetry.server_span(name, message.headers, message.subject) as span:
            try:
                await self._replies.reply(message, encode(await self._answer(message, answer)))
            except asyncio.CancelledError:
                fault: Fault | None = self._why_cancelled(message)
            except Fault as raised:
                fault = raised
            except Exception:
                log.exception("%s failed", name)
                fault = Fault(
                    ErrorCode.INTERNAL,
                    f"An internal error occurred. Report it with trace {telemetry.trace_id()}.",
                )
            else:
                fault = None
            if fault is not None:
                code = fault.code
                telemetry.mark(span, fault)
                await self._replies.fail(message, fault.failure)
            self.served += 1
        telemetry.record(
            time.perf_counter() - started_s, side="server", service=self.worker.service, code=code
        )

    async def _answer(self, message: Message, answer: Answer) -> Any:
        headers = message.headers
        deadline = Deadline.from_headers(headers)
        actor = Actor()
        if ACTOR in headers:
            signature = headers.get(ACTOR_SIG, "")
            if self._verifier is not None:
                self._verifier.verify(headers[ACTOR], signature)
            actor = Actor.from_header(headers[ACTOR])
            if signature:
                received_signature.set((headers[ACTOR], signature))
        call = Call(
            req_id=headers.get(REQ_ID, "")[:64],
            service=self.worker.service,
            subject=message.subject,
            actor=actor,
            deadline=deadline,
            send_event=lambda event: self._replies.event(message, event),
        )
        late = Fault(
            ErrorCode.DEADLINE_EXCEEDED,
            f"The {self.worker.service} service could not finish in time. Ask for less.",
        )
        if deadline.remaining_s <= 0:
            raise late
        try:
            async with asyncio.timeout(deadline.remaining_s) as limit:
                body = message.data
                if PARTS in headers:
                    body = await self._pull(decode(headers[PARTS].encode(), Parts), deadline)
                return await answer(call, body)
        except TimeoutError:
            if not limit.expired():  # the handler's own, forgotten
                raise
            raise late from None

    def _why_cancelled(self, message: Message) -> Fault:
        if message.headers.get(REQ_ID, "")[:64] in self._cancelled:
            return Fault(ErrorCode.CANCELLED, "The caller cancelled the request.")
        return Fault(ErrorCode.UNAVAILABLE, "The worker is stopping. Try again.")

    async def _pull(self, parts: Parts, deadline: Deadline) -> bytes:
        assembly = Assembly(parts.count, parts.size_bytes, parts.sha256)
        for index in range(parts.count):
            part = Request(
                parts.subject,
                index,
                Raw,
                service=self.worker.service,
                timeout_s=max(0.001, deadline.remaining_s),
            )
            body = assembly.add(index, await self._requester.send(part))
        if body is None:
            raise Fault(ErrorCode.INVALID_ARGUMENT, "The request's parts are incomplete.")
        return body


def _endpoint(subject: str, group: str) -> dict[str, Any]:
    name = "-".join(t for t in subject.split(".")[2:] if t not in "*>") or "root"
    return {"name": name, "subject": subject, "queue_group": group, "metadata": {}}


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
    description="Requests that they handle at once before they refuse more.",
)

"""One request at a worker: headers, parts, deadline, the handler, and the reply or the failure."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Raw

from searchbus_contracts import Actor, ErrorCode, Fault, Parts, ToolEvent, decode, encode
from searchbus_contracts.headers import (
    ACK,
    ACTOR,
    CHUNK,
    CREDIT,
    ERROR_CODE,
    ERROR_TEXT,
    EVENT,
    INSTANCE_ONLY,
    PARTS,
    REQ_ID,
    SIZE,
    STARTED,
)
from searchbus_contracts.subjects import PART, part_subject

from .. import telemetry
from ..client.inbox import Inbox
from ..client.parts import (
    PART_BYTES,
    Assembly,
    ChunkMark,
    Credit,
    part_size_bytes,
    split,
)
from ..client.request import Deadline, Request, received_deadline
from ..client.requester import Requester
from ..client.transit import TransitBudget
from ..identity import ActorVerifier, Sent, received_delegation
from ..loop_watch import serves
from ..transport import Message, Transport, publish_or_log
from .toolset import Call
from .worker import Worker

_LATE_S = 1.0
"""Behind its deadline a request was not just slow."""
PART_WAIT_S = 10.0
"""A caller that does not send the next part of its request for so long is gone."""
_WARN_EVERY_S = 60.0
_STOPPED = "The worker stopped while it had the request. Look what is done, then try again."

log = logging.getLogger("searchbus.bus")


class Replies:
    """Sends replies of a request, by the inbox's credit if large; a failed send is logged."""

    def __init__(self, transport: Transport, inbox: Inbox) -> None:
        self._transport = transport
        self._inbox = inbox

    async def reply(self, message: Message, body: bytes) -> None:
        """Send the reply to a request; a large one, as fast as its receiver allows."""
        try:
            size_bytes = part_size_bytes(self._transport.max_payload_bytes)
            if len(body) <= size_bytes:
                await self._transport.publish(message.reply, body)
                return
            # A receiver that gives no credit takes all parts at once.
            credit = Credit(given=CREDIT in message.headers)
            async with self._inbox.receive(PART, credit.take) as subject:
                if CREDIT in message.headers:
                    size = {SIZE: str(len(body))}
                    await self._transport.publish(message.reply, b"", reply=subject, headers=size)
                if await credit.covers(0):
                    await self._send_parts(message.reply, body, size_bytes, credit)
        except Fault:
            log.warning("a reply on %s could not be sent", message.subject)

    async def _send_parts(self, subject: str, body: bytes, size_bytes: int, credit: Credit) -> None:
        parts = split(body, size_bytes)
        digest = (await asyncio.to_thread(hashlib.sha256, body)).hexdigest()
        for index, part in enumerate(parts):
            if not await credit.covers(index):
                log.debug("the receiver of a large reply does not want it any more")
                return
            mark = ChunkMark(index, len(parts), len(body), digest)
            await self._transport.publish(subject, bytes(part), headers={CHUNK: str(mark)})

    async def fail(self, message: Message, fault: Fault, *, started: bool = False) -> None:
        """Send a failure instead of a reply; `started`: the work may be done in part."""
        text = " ".join(fault.failure.message.split()).encode("ascii", "replace").decode()[:512]
        headers = {ERROR_CODE: fault.code, ERROR_TEXT: text}
        if started:
            headers[STARTED] = "1"
        await publish_or_log(
            self._transport, message.reply, encode(fault.failure),
            f"a failure on {message.subject}", headers=headers, level=logging.WARNING,
        )  # fmt: skip

    async def acknowledge(self, message: Message, instance: str) -> None:
        """Name the instance that has a request whose reply takes long."""
        headers = {ACK: instance}
        await publish_or_log(
            self._transport, message.reply, b"", "an acknowledgement", headers=headers
        )

    async def event(self, message: Message, event: ToolEvent) -> None:
        """Send progress or a log line before the reply."""
        headers: dict[str, str] = {EVENT: event.kind}
        await publish_or_log(
            self._transport, message.reply, encode(event), "a progress event", headers=headers
        )


Handler = Callable[[Call, bytes], Awaitable[Any]]
"""Takes the body of a request, not decoded, and returns the reply, not encoded."""


def cancelled_fault() -> Fault:
    """The failure of a request that its caller cancelled."""
    return Fault(ErrorCode.CANCELLED, "The caller cancelled the request.")


def stopping_fault() -> Fault:
    """The failure of a request that a worker did not start before it stopped."""
    return Fault(ErrorCode.UNAVAILABLE, "The worker is stopping. Try again.")


def req_id_of(message: Message) -> str:
    """The id of the request that a message carries; empty where it has none."""
    return message.headers.get(REQ_ID, "")[:64]


class Handling:
    """Handles the requests of one service; `requester` fetches the parts of large ones, `verifier`
    refuses actors that no edge signed (None accepts every actor)."""

    def __init__(
        self,
        worker: Worker,
        replies: Replies,
        requester: Requester,
        verifier: ActorVerifier | None = None,
    ) -> None:
        self._worker = worker
        self._service = worker.service
        self._arriving = TransitBudget()
        self._replies = replies
        self._requester = requester
        self._verifier = verifier
        self._unsigned_s = float("-inf")
        self.handled = 0
        self._silent_until_s = 0.0
        self._may_encode = asyncio.Event()
        self._may_encode.set()

    @serves(lambda names: f"{names['message'].subject}, request {req_id_of(names['message'])}")
    async def handle(
        self, message: Message, handler: Handler, *, cancelled: Callable[[], bool]
    ) -> None:
        """Call the handler and send its reply or its failure; raises nothing. `cancelled`: by the
        caller, rather than because the worker stops."""
        started_s = time.perf_counter()
        name = _name(message.subject)
        fault: Fault | None = None
        stopped = False
        with telemetry.server_span(name, message.headers, message.subject) as span:
            try:
                await self._run(message, handler)
            except asyncio.CancelledError:
                stopped = not cancelled()
                fault = Fault(ErrorCode.UNAVAILABLE, _STOPPED) if stopped else cancelled_fault()
            except Fault as raised:
                fault = raised
            except Exception:
                log.exception("%s failed", name)
                fault = Fault(
                    ErrorCode.INTERNAL,
                    f"An internal error occurred. Report it with trace {telemetry.trace_id()}.",
                )
            if fault is not None:
                telemetry.mark(span, fault)
                await self._replies.fail(message, fault, started=stopped)
        seconds = time.perf_counter() - started_s
        code = "ok" if fault is None else fault.code
        telemetry.record(seconds, side="server", service=self._service, code=code)
        self.handled += 1

    async def _run(self, message: Message, handler: Handler) -> None:
        if self._worker.admit is not None:
            await self._worker.admit()
        deadline = Deadline.from_headers(message.headers, self._worker.max_timeout_s)
        received_deadline.set(deadline)
        call = Call(
            req_id=req_id_of(message),
            service=self._service,
            subject=message.subject,
            actor=self._actor(message),
            deadline=deadline,
            relay=lambda event: self._replies.event(message, event),
            instance_only=INSTANCE_ONLY in message.headers,
        )
        if deadline.remaining_s <= 0:
            self._note_late(-deadline.remaining_s)
            raise self._late()
        try:
            async with asyncio.timeout(deadline.remaining_s) as limit:
                with self._worker.keeping():
                    # One expression: no body is kept beside the bytes that are sent.
                    reply = await self._encode(
                        await handler(call, await self._body(message, deadline))
                    )
                    # Within the deadline too: the receiver of a large reply may be gone.
                    await self._replies.reply(message, reply)
        except TimeoutError:
            if not limit.expired():  # the handler's own TimeoutError
                raise
            raise self._late() from None

    async def _encode(self, reply: Any) -> bytes:
        """Encode one large reply in each turn of the loop: pings in between must be answered."""
        while not self._may_encode.is_set():
            await self._may_encode.wait()
        body = encode(reply)
        if len(body) > PART_BYTES:
            self._may_encode.clear()
            asyncio.get_running_loop().call_soon(self._may_encode.set)
        return body

    def _actor(self, message: Message) -> Actor:
        """The actor of a request; raises Fault(forbidden) where its signature is not valid."""
        header = message.headers.get(ACTOR)
        if header is None:
            return Actor()
        if self._verifier is not None:
            try:
                received_delegation.set(self._verifier.verify(message.headers, _sent(message)))
            except Fault:
                self._note_unsigned(message.subject)
                raise
        return Actor.from_header(header)

    def _note_unsigned(self, subject: str) -> None:
        telemetry.count_refused_credential("actor_public_key")
        now_s = time.monotonic()
        # Who can publish to a service can send it any number of unsigned requests.
        if now_s - self._unsigned_s > _WARN_EVERY_S:
            self._unsigned_s = now_s
            log.warning(
                "a request to %s is refused: no key of actor_public_key signed its caller. If the "
                "edge has another key, give both the files of one `searchbus nats-config`.",
                subject,
            )

    async def _body(self, message: Message, deadline: Deadline) -> bytes:
        header = message.headers.get(PARTS)
        if header is None:
            return message.data
        parts = decode(header.encode(), Parts)
        if parts.subject != part_subject(message.reply):
            # Otherwise a caller could make this worker publish where only the worker may.
            raise Fault(
                ErrorCode.INVALID_ARGUMENT,
                "The request's parts are not at its reply subject. Send them there.",
            )
        limit = self._worker.max_request_bytes
        if parts.size_bytes > limit:
            raise Fault(
                ErrorCode.INVALID_ARGUMENT, f"The request is over {limit} bytes. Send less."
            )
        reservation = self._arriving.reserve("", parts.size_bytes)
        if reservation is None:
            raise Fault(
                ErrorCode.OVERLOADED,
                f"The {self._service} service is receiving too many large requests. Try again "
                "shortly.",
                retry_after_ms=1000,
            )
        try:
            return await self._fetch(parts, deadline)
        finally:
            reservation.release()

    async def _fetch(self, parts: Parts, deadline: Deadline) -> bytes:
        assembly = Assembly(parts.count, parts.size_bytes, parts.sha256)
        body = None
        for index in range(parts.count):
            request = Request(
                parts.subject,
                index,
                Raw,
                service=self._service,
                timeout_s=max(0.001, min(PART_WAIT_S, deadline.remaining_s)),
                replier=PART,
            )
            try:
                part = await self._requester.send(request)
            except Fault as fault:
                if fault.code != ErrorCode.DEADLINE_EXCEEDED:
                    raise
                raise Fault(
                    fault.code,
                    "The parts of the request did not arrive in time. Send it again, or send less.",
                ) from None
            body = assembly.add(index, part)
        if body is None:
            raise Fault(
                ErrorCode.INVALID_ARGUMENT, "The request's parts are incomplete. Send all of them."
            )
        return body

    def _note_late(self, late_s: float) -> None:
        """Count and, now and then, log a request that came long after its deadline."""
        if late_s < _LATE_S:
            return
        telemetry.count_error("late")
        if time.monotonic() >= self._silent_until_s:
            self._silent_until_s = time.monotonic() + _WARN_EVERY_S
            log.warning(
                "a request reached %s %.0f s after its deadline: "
                "it waited for a connection, or the clocks of two hosts differ",
                self._service, late_s,
            )  # fmt: skip

    def _late(self) -> Fault:
        return Fault(
            ErrorCode.DEADLINE_EXCEEDED,
            f"The {self._service} service could not finish in time. Try again, or ask for less.",
        )


def _name(subject: str) -> str:
    """The subject without prefix, version, instance and the hash of a catalogue."""
    tokens = subject.split(".")[2:]
    if tokens[:1] == ["at"]:
        tokens = tokens[2:]
    return ".".join(tokens[:2] if tokens[:1] == ["catalog"] else tokens)


def _sent(message: Message) -> Sent:
    """What the actor's signature is for; the whole body is checked against the hash in Parts."""
    parts = message.headers.get(PARTS)
    if parts is None:
        sha256 = hashlib.sha256(message.data).hexdigest()
    else:
        sha256 = decode(parts.encode("utf-8", "replace"), Parts).sha256
    return Sent(message.subject, message.headers.get(REQ_ID, ""), sha256)

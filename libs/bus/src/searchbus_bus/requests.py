"""The caller's side: one subscription for all replies, a deadline for every request.

A request ends in one reply or one `Fault`, never later than its deadline. It is sent a second time,
to whichever worker the queue group picks, when the first attempt surely did no work (no responders,
shed, draining), and after a lost connection when the request is idempotent.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from searchbus_contracts import (
    Actor,
    Cancel,
    ErrorCode,
    Failure,
    Fault,
    Parts,
    Subjects,
    ToolEvent,
    decode,
    encode,
)
from searchbus_contracts.headers import (
    ACTOR,
    ACTOR_SIG,
    CHUNK,
    ERROR_CODE,
    ERROR_TEXT,
    EVENT,
    PARTS,
    REQ_ID,
)

from . import telemetry
from .deadline import Deadline
from .identity import ActorSigner, received_signature
from .parts import MAX_BODY_BYTES, Assembly, ChunkMark, part_size_bytes, split
from .transport import Message, Subscription, Transport

__all__ = ["OnEvent", "Requester"]

log = logging.getLogger("searchbus.bus")
OnEvent = Callable[[ToolEvent], None]

_ATTEMPTS = 2
_ANOTHER_WORKER_MAY = frozenset({ErrorCode.UNAVAILABLE, ErrorCode.OVERLOADED})
_SETTLE_S = 2.0
"""After a lost connection the workers reconnect too, some of them later than we do."""
_LEAST_USEFUL_S = 0.005
"""A retry with less time left than this is not worth sending."""


class _ConnectionLost(Exception):
    """The connection went while an answer was awaited: the request may or may not have run."""


@dataclass(slots=True)
class _Pending:
    """One attempt that waits for its answer."""

    answer: asyncio.Future[bytes]
    on_event: OnEvent | None
    body_parts: list[memoryview]
    assembly: Assembly | None = None


class Requester:
    """Sends requests over a transport. Use it through `Bus`."""

    def __init__(
        self, transport: Transport, subjects: Subjects, signer: ActorSigner | None = None
    ) -> None:
        self._signer = signer
        self._transport = transport
        self._subjects = subjects
        self._inbox = transport.new_inbox()
        self._tokens = itertools.count(1)
        self._pending: dict[str, _Pending] = {}
        self._collectors: dict[str, Callable[[bytes], None]] = {}
        self._subscription: Subscription | None = None
        self._starting = asyncio.Lock()
        self._background: set[asyncio.Task[None]] = set()
        self._was_lost = False
        self._settled_at_s = 0.0
        transport.on_disconnect(self._connection_lost)

    @property
    def in_flight(self) -> int:
        """How many answers are awaited."""
        return len(self._pending)

    async def request(
        self,
        subject: str,
        body: bytes,
        *,
        service: str,
        timeout_s: float,
        actor: Actor | None = None,
        on_event: OnEvent | None = None,
        idempotent: bool = True,
    ) -> bytes:
        """Send a request and return the body of its reply; see `Bus.request`."""
        started_s = time.perf_counter()
        code = "ok"
        deadline = Deadline.after(timeout_s)
        req_id = secrets.token_hex(16)
        with telemetry.client_span(subject, service) as span:
            span.set_attribute("messaging.message.conversation_id", req_id)
            span.set_attribute("messaging.message.body.size", len(body))
            try:
                return await self._attempts(
                    subject, body, service, deadline, req_id, actor, on_event, idempotent
                )
            except Fault as fault:
                code = fault.code
                raise
            except asyncio.CancelledError:
                code = str(ErrorCode.CANCELLED)
                self._cancel(service, req_id)
                raise
            finally:
                telemetry.record(
                    time.perf_counter() - started_s, side="client", service=service, code=code
                )

    async def _attempts(
        self,
        subject: str,
        body: bytes,
        service: str,
        deadline: Deadline,
        req_id: str,
        actor: Actor | None,
        on_event: OnEvent | None,
        idempotent: bool,
    ) -> bytes:
        if len(body) > MAX_BODY_BYTES:
            limit = MAX_BODY_BYTES // 1024 // 1024
            raise Fault(
                ErrorCode.INVALID_ARGUMENT, f"The request is larger than {limit} MiB. Send less."
            )
        for attempt in itertools.count(1):
            if not await self._transport.wait_connected(max(0.0, deadline.remaining_s)):
                raise Fault(
                    ErrorCode.UNAVAILABLE, "The message bus is not reachable. Try again shortly."
                )
            last = attempt >= _ATTEMPTS
            try:
                return await self._once(subject, body, service, deadline, req_id, actor, on_event)
            except Fault as fault:
                pause_s = random.uniform(0.01, 0.05)  # noqa: S311  (jitter)
                if (
                    (last and not (fault.code == ErrorCode.UNAVAILABLE and self._settling()))
                    or fault.code not in _ANOTHER_WORKER_MAY
                    or deadline.remaining_s < pause_s + _LEAST_USEFUL_S
                ):
                    raise
                await asyncio.sleep(pause_s)
            except _ConnectionLost:
                if last or not idempotent:
                    raise Fault(
                        ErrorCode.UNAVAILABLE,
                        "The connection to the message bus was lost while the answer was awaited.",
                    ) from None
        raise AssertionError("unreachable")

    def _identify(self, actor: Actor) -> dict[str, str]:
        """The headers that say for whom: signed by us, or as they came to the task we run in."""
        header = actor.to_header()
        if self._signer is not None:
            return {ACTOR: header, ACTOR_SIG: self._signer.sign(header)}
        received = received_signature.get()
        if received is not None and Actor.from_header(received[0]) == actor:
            return {ACTOR: received[0], ACTOR_SIG: received[1]}
        return {ACTOR: header}

    def _settling(self) -> bool:
        """Whether a connection was lost so lately that workers may still be on their way back."""
        now_s = time.monotonic()
        if self._was_lost and self._transport.connected:
            self._was_lost = False
            self._settled_at_s = now_s + _SETTLE_S
        return now_s < self._settled_at_s

    async def _once(
        self,
        subject: str,
        body: bytes,
        service: str,
        deadline: Deadline,
        req_id: str,
        actor: Actor | None,
        on_event: OnEvent | None,
    ) -> bytes:
        await self._start()
        headers = {REQ_ID: req_id, **deadline.to_headers()}
        telemetry.inject(headers)
        if actor is not None:
            headers |= self._identify(actor)
        token = f"{next(self._tokens):x}"
        pending = _Pending(asyncio.get_running_loop().create_future(), on_event, [])
        size_bytes = part_size_bytes(self._transport.max_payload_bytes)
        if len(body) > size_bytes:
            pending.body_parts = split(body, size_bytes)
            parts = Parts(
                subject=f"{self._inbox}.{token}.part",
                count=len(pending.body_parts),
                size_bytes=len(body),
                sha256=hashlib.sha256(body).hexdigest(),
            )
            headers[PARTS] = encode(parts).decode()
            body = b""
        self._pending[token] = pending
        try:
            async with asyncio.timeout(max(0.0, deadline.remaining_s)):
                await self._transport.publish(
                    subject, body, reply=f"{self._inbox}.{token}", headers=headers
                )
                return await pending.answer
        except TimeoutError:
            self._cancel(service, req_id)
            raise Fault(
                ErrorCode.DEADLINE_EXCEEDED,
                f"The {service} service did not answer in time. Try again, or ask for less.",
            ) from None
        finally:
            del self._pending[token]
            pending.answer.cancel()

    async def collect(self, subject: str, body: bytes, *, window_s: float) -> list[bytes]:
        """Ask everybody who listens to a subject; every answer that came within the window."""
        await self._start()
        token = f"{next(self._tokens):x}"
        answers: list[bytes] = []
        self._collectors[token] = answers.append
        try:
            await self._transport.publish(subject, body, reply=f"{self._inbox}.{token}")
            await asyncio.sleep(window_s)
        finally:
            del self._collectors[token]
        return answers

    async def _start(self) -> None:
        if self._subscription is None:
            async with self._starting:
                if self._subscription is None:
                    self._subscription = await self._transport.subscribe(
                        f"{self._inbox}.>", self._on_message
                    )

    def _cancel(self, service: str, req_id: str) -> None:
        async def publish() -> None:
            try:
                await self._transport.publish(
                    self._subjects.cancel(service), encode(Cancel(req_id=req_id))
                )
            except Fault:
                log.debug("could not tell %s that a request was cancelled", service)

        task = asyncio.get_running_loop().create_task(publish())
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _connection_lost(self) -> None:
        self._was_lost = True
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(_ConnectionLost())

    async def _on_message(self, message: Message) -> None:
        token, _, rest = message.subject[len(self._inbox) + 1 :].partition(".")
        collector = self._collectors.get(token)
        if collector is not None:
            if not message.no_responders:
                collector(message.data)
            return
        pending = self._pending.get(token)
        if pending is None or pending.answer.done():
            return
        if rest:
            await self._send_part(pending, message)
            return
        try:
            body = self._take(pending, message)
        except Fault as fault:
            pending.answer.set_exception(fault)
        except Exception:
            log.exception("an answer could not be taken")
            pending.answer.set_exception(
                Fault(ErrorCode.INTERNAL, "The answer could not be understood.")
            )
        else:
            if body is not None:
                pending.answer.set_result(body)

    def _take(self, pending: _Pending, message: Message) -> bytes | None:
        headers = message.headers
        if message.no_responders:
            raise Fault(
                ErrorCode.UNAVAILABLE, "No worker is running that could answer. Try again shortly."
            )
        if ERROR_CODE in headers:
            raise Fault.of(_failure(message))
        if EVENT in headers:
            if pending.on_event is not None:
                pending.on_event(decode(message.data, ToolEvent))
            return None
        if CHUNK not in headers:
            return message.data
        mark = ChunkMark.parse(headers[CHUNK])
        if pending.assembly is None:
            pending.assembly = Assembly(mark.count, mark.size_bytes, mark.sha256)
        return pending.assembly.add(mark.index, message.data)

    async def _send_part(self, pending: _Pending, message: Message) -> None:
        digits = message.data[:8]
        index = int(digits) if digits.isdigit() else -1
        if not message.reply or not 0 <= index < len(pending.body_parts):
            return
        try:
            await self._transport.publish(message.reply, bytes(pending.body_parts[index]))
        except Fault:
            log.debug("a part of a request could not be sent")


def _failure(message: Message) -> Failure:
    """The failure in a reply; its headers alone where the body is not ours (another language)."""
    try:
        return decode(message.data, Failure)
    except Fault:
        return Failure(
            code=message.headers[ERROR_CODE],
            message=message.headers.get(ERROR_TEXT, "The service failed without a message."),
        )

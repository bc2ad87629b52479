"""The caller's side: a request ends in one reply or one `Fault`, never later than its deadline.

A request is sent a second time when the first attempt surely did no work (no responders, shed,
draining). After a lost connection or a lost worker (fleet.py) an idempotent one is sent again,
a few times while its time lasts: several workers may be lost together. It goes to whichever worker
the queue group picks; after a loss, and where an instance does not answer, to an instance by its
id: NATS servers go on giving a queue group's requests to another server that hangs, until its pings
are missed. One that a single instance can do is sent once.
"""

from __future__ import annotations

import asyncio
import functools
import random
import time
from typing import Any

from opentelemetry.trace import Span

from searchbus_contracts import Cancel, ErrorCode, Fault, Ping, Pong, Subjects, decode, encode
from searchbus_contracts.headers import ACK_MS, ACTOR, CREDIT, INSTANCE_ONLY, REQ_ID

from .. import telemetry
from ..identity import ActorSigner, Sent, received_delegation
from ..tasks import Background
from ..transport import Transport, publish_or_log
from .discovery import discover_instances
from .fleet import ACK_AFTER_MS, Fleet, State
from .inbox import Inbox, random_id
from .parts import MAX_BODY_BYTES
from .reply import FailedAttempt, Pending
from .request import Deadline, InstanceGoneError, Request
from .transit import TransitFullError

_ATTEMPTS = 2
_ATTEMPTS_IF_LOST = 4
"""An idempotent request is sent so often if its worker or connection is lost each time."""
_DID_NO_WORK = frozenset({ErrorCode.UNAVAILABLE, ErrorCode.OVERLOADED})
"""Codes after which another worker may take the request."""
_LOST = frozenset({"connection_lost", "worker_lost"})
_GIVEN_UP = frozenset({"worker_hung", "stopping"})
"""Nobody else is asked."""
_REFUSED_WITHIN_S = 3.0
"""A failure that comes later is one of the work, for instance of a service behind it."""
_RECONNECTING_S = 2.0
"""After a lost connection the workers reconnect too, some of them later than this process."""
RECONNECT_GRACE_S = 2.0
"""A server that restarts is back in about a second. After this time without one, and once each
server was tried, requests fail at once instead of waiting for their deadlines."""
_LOOK_EVERY_S = 0.1
PING_TIMEOUT_S = 0.5
"""An instance that does not answer a ping in this time is asked for nothing until it does."""
_PING_AGAIN_S = 0.05
_LEAST_USEFUL_S = 0.005
"""A retry with less time left than this is not worth sending."""
_ACK_AFTER_MS = str(ACK_AFTER_MS)
_PING = encode(Ping())
_PING_FOR_PARTS = encode(Ping(parts=True))
_STATES = {"timeout": State.SILENT, "no_responders": State.GONE}


class Requester:
    """Sends requests over a transport, for `Bus`; they wait for a lost connection, for a grace."""

    def __init__(
        self,
        transport: Transport,
        subjects: Subjects,
        signer: ActorSigner | None = None,
        *,
        reconnect_grace_s: float = RECONNECT_GRACE_S,
    ) -> None:
        self._signer = signer
        self._transport = transport
        self._subjects = subjects
        self.inbox = Inbox(transport)
        self.fleet = Fleet(self.ping, self._instances)
        self._background = Background()
        self._was_lost = False
        self._reconnect_grace_s = reconnect_grace_s
        self._reconnecting_until_s = 0.0
        transport.on_disconnect(self._connection_lost)

    async def send(self, request: Request[Any]) -> bytes:
        """Send a request and return the body of its reply, not decoded; see `Bus.send`."""
        started_s = time.perf_counter()
        code = "ok"
        body = encode(request.message)
        req_id = random_id()
        with telemetry.client_span(
            request.subject, request.service, req_id=req_id, size_bytes=len(body)
        ) as span:
            try:
                return await self._attempts(request, body, req_id, span)
            except Fault as fault:
                code = fault.code
                raise
            except asyncio.CancelledError:
                code = str(ErrorCode.CANCELLED)
                self._cancel(request.service, req_id)
                raise
            finally:
                seconds = time.perf_counter() - started_s
                telemetry.record(seconds, side="client", service=request.service, code=code)

    async def ping(self, service: str, instance: str, timeout_s: float | None = None) -> State:
        """Ping one instance, untraced, by default for `PING_TIMEOUT_S`; raises ValueError (id)."""
        if not self._transport.connected:
            return State.UNKNOWN
        wait_s = PING_TIMEOUT_S if timeout_s is None else timeout_s
        outcome = await self._pinged(service, instance, _PING, wait_s)
        if isinstance(outcome, bytes):
            return State.ALIVE
        return _STATES.get(outcome.cause, State.UNKNOWN)

    async def live(self, service: str, instance: str, timeout_s: float) -> Pong | None:
        """The reply of an instance to a ping that asks for its parts, if any; raises as `ping`."""
        outcome = await self._pinged(service, instance, _PING_FOR_PARTS, timeout_s)
        return decode(outcome, Pong) if isinstance(outcome, bytes) else None

    async def _pinged(
        self, service: str, instance: str, body: bytes, timeout_s: float
    ) -> bytes | FailedAttempt:
        subject, deadline = self._subjects.ping(service, instance), Deadline.after(timeout_s)
        return await self.inbox.attempt(
            subject, body, replier=service, headers={}, deadline=deadline
        )

    async def _instances(self, service: str) -> list[str] | None:
        """See `fleet.Look`."""
        try:
            return await discover_instances(self.inbox, service, quiet_s=PING_TIMEOUT_S)
        except Fault:
            return None

    async def answers(self, service: str, instance: str, timeout_s: float) -> bool:
        """Whether an instance answers a ping; pings a reconnecting one again. Raises as `ping`."""
        deadline = Deadline.after(timeout_s)
        while True:
            state = await self.ping(service, instance, deadline.remaining_s)
            again = state is State.GONE and self._reconnecting()
            if not again or deadline.remaining_s < _PING_AGAIN_S + _LEAST_USEFUL_S:
                return state is State.ALIVE
            await asyncio.sleep(_PING_AGAIN_S)

    async def _attempts(self, request: Request[Any], body: bytes, req_id: str, span: Span) -> bytes:
        if len(body) > MAX_BODY_BYTES:
            limit = MAX_BODY_BYTES // 1024 // 1024
            raise Fault(
                ErrorCode.INVALID_ARGUMENT, f"The request is larger than {limit} MiB. Send less."
            )
        deadline = Deadline.after(request.timeout_s)
        attempt = 0
        instance = request.instance
        avoid: set[str] = set()
        was_lost = False
        while True:
            attempt += 1
            if not (self._transport.connected or await self._reconnected(deadline)):
                raise Fault(
                    ErrorCode.UNAVAILABLE, "The message bus is not reachable. Try again shortly."
                )
            avoids = was_lost or self.fleet.avoids(request.service)
            if instance is None and avoids and self._is_work(request):
                instance = self.fleet.pick(request.service, avoid)
            subject, sent_s = request.subject, time.monotonic()
            if instance is not None:
                subject = self._subjects.at(instance, subject)
            outcome = await self.inbox.attempt(
                subject,
                body,
                replier=request.replier or request.service,
                headers=self._headers(request, subject, deadline, req_id, body, span),
                deadline=deadline,
                on_event=request.on_event,
                on_silence=functools.partial(self._watch, request, attempt),
                caller=request.actor.subject if request.actor is not None else "",
                kind=request.subject,
            )
            if isinstance(outcome, bytes):
                if instance is not None:
                    self.fleet.answered(instance)
                return outcome
            if instance is not None and outcome.cause == "no_responders":
                # It is on standby, or just left: the others were not asked yet.
                self.fleet.absent(instance)
                if request.instance_only:
                    raise InstanceGoneError(outcome.fault.failure.message, received=False)
                avoid.add(instance)
                instance = None
                attempt -= 1
                continue
            if outcome.cause == "timeout":
                self._cancel(request.service, req_id)
                raise Fault(
                    ErrorCode.DEADLINE_EXCEEDED,
                    f"The {request.service} service did not answer in time. "
                    "Try again, or ask for less.",
                )
            took_s = time.monotonic() - sent_s
            pause_s = self._pause_s(outcome, request, attempt, took_s)
            if pause_s is None or deadline.remaining_s < pause_s + _LEAST_USEFUL_S:
                if outcome.cause in {"worker_lost", *_GIVEN_UP}:
                    self._cancel(request.service, req_id)  # for the case that it goes on later
                raise _final(outcome, request)
            avoid |= {instance or outcome.instance} - {""}
            instance = None
            was_lost = was_lost or outcome.cause in _LOST
            await asyncio.sleep(pause_s)

    def _is_work(self, request: Request[Any]) -> bool:
        return not request.replier and self._subjects.is_work(request.subject)

    async def _watch(self, request: Request[Any], attempt: int, pending: Pending) -> None:
        """Watch an attempt that has been silent for long, if instances take such requests."""
        if self._is_work(request):
            only = request.instance or "" if request.instance_only else ""
            may_repeat = _may_repeat_lost(request, attempt)
            await self.fleet.watch(pending, request.service, may_repeat=may_repeat, only=only)

    def _pause_s(
        self, failed: FailedAttempt, request: Request[Any], attempt: int, took_s: float
    ) -> float | None:
        """Seconds until the next attempt; None where the request must not be repeated."""
        if failed.cause in _LOST:
            return 0.0 if _may_repeat_lost(request, attempt) else None
        is_final = failed.cause in _GIVEN_UP or isinstance(failed.fault, TransitFullError)
        if request.instance_only or is_final:
            return None
        # A worker may be away after it began: it says then that the work must not be repeated.
        if failed.fault.code not in _DID_NO_WORK or not failed.fault.failure.retryable:
            return None
        last = attempt >= _ATTEMPTS or took_s >= _REFUSED_WITHIN_S
        if last and not (failed.fault.code == ErrorCode.UNAVAILABLE and self._reconnecting()):
            return None
        return random.uniform(0.01, 0.05)  # noqa: S311  (jitter)

    def _headers(
        self,
        request: Request[Any],
        subject: str,
        deadline: Deadline,
        req_id: str,
        body: bytes,
        span: Span,
    ) -> dict[str, str]:
        headers = deadline.to_headers()
        headers[REQ_ID] = req_id
        headers[ACK_MS] = _ACK_AFTER_MS
        headers[CREDIT] = "1"
        if request.instance_only:
            headers[INSTANCE_ONLY] = "1"
        telemetry.inject(headers, span)
        if request.actor is not None:
            delegation = received_delegation.get()
            signed = None
            if self._signer is not None:
                sent = Sent.of(subject, req_id, body)
                signed = self._signer.headers(request.actor, sent, timeout_s=deadline.remaining_s)
            elif delegation is not None:
                signed = delegation.headers(request.actor, Sent.of(subject, req_id, body))
            headers |= signed or {ACTOR: request.actor.to_header()}
        return headers

    def _reconnecting(self) -> bool:
        """Whether the connection was lost so recently that workers may still be reconnecting."""
        now_s = time.monotonic()
        if self._was_lost and self._transport.connected:
            self._was_lost = False
            self._reconnecting_until_s = now_s + _RECONNECTING_S
        return now_s < self._reconnecting_until_s

    async def _reconnected(self, deadline: Deadline) -> bool:
        """Wait for a connection that was lost just now, or while there is a server to try.

        An attempt at one that hangs takes two seconds, and any attempt does on a busy machine.
        """
        while True:
            left_s = self._reconnect_grace_s - self._transport.away_s
            if left_s < _LOOK_EVERY_S and not self._transport.tried_all:
                left_s = _LOOK_EVERY_S
            wait_s = max(0.0, min(left_s, deadline.remaining_s))
            was_up = await self._transport.wait_connected(wait_s)
            if self._transport.connected or not wait_s:
                return self._transport.connected
            if was_up:  # the loss is being noticed
                await asyncio.sleep(_PING_AGAIN_S)

    def _connection_lost(self) -> None:
        self._was_lost = True
        self.fleet.forget_silence()

    def _cancel(self, service: str, req_id: str) -> None:
        subject, body = self._subjects.cancel(service), encode(Cancel(req_id=req_id))
        self._background.start(
            publish_or_log(self._transport, subject, body, "the cancellation of a request")
        )


def _may_repeat_lost(request: Request[Any], attempt: int) -> bool:
    return request.idempotent and not request.instance_only and attempt < _ATTEMPTS_IF_LOST


def _final(failed: FailedAttempt, request: Request[Any]) -> Fault:
    """The failure of a request that is not sent again."""
    if failed.cause not in _LOST | _GIVEN_UP:
        return failed.fault
    failure = failed.fault.failure
    message = failure.message
    if failed.cause == "stopping":
        message = f"The server stopped while the {request.service} service had the request."
    elif failed.cause == "connection_lost" and not request.idempotent:
        message = (
            f"The connection to the message bus was lost while the {request.service} service had "
            "the request."
        )
    if not request.idempotent:
        message += " It may have done the work. Look before you repeat it."
    elif failed.cause != "connection_lost":
        message += " Try again."
    if request.instance_only and failed.cause == "worker_lost":
        return InstanceGoneError(message, received=True)
    return Fault(failure.code, message, retryable=failure.retryable and request.idempotent)

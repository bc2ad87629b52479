"""One request at a worker: headers, parts, deadline, the handler, and the reply or the failure."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Raw

from searchbus_contracts import Actor, ErrorCode, Fault, Parts, decode, encode
from searchbus_contracts.headers import ACTOR, INSTANCE_ONLY, PARTS, REQ_ID
from searchbus_contracts.subjects import PART, part_subject

from . import telemetry
from .call import Call
from .deadline import Deadline
from .identity import ActorVerifier, Sent, received_delegation
from .loop_watch import serves
from .parts import PART_BYTES, Assembly
from .replies import Replies
from .request import Request
from .requests import Requester
from .tasks import TimeLimit
from .transport import Message

__all__ = ["Handler", "Handling", "req_id_of"]

log = logging.getLogger("searchbus.bus")
Handler = Callable[[Call, bytes], Awaitable[Any]]
"""Takes the body of a request, not decoded, and returns the reply, not encoded."""

_LATE_S = 1.0
"""Behind its deadline a request was not just slow."""
_WARN_EVERY_S = 60.0


def req_id_of(message: Message) -> str:
    """The id of the request that a message carries; empty where it has none."""
    return message.headers.get(REQ_ID, "")[:64]


class Handling:
    """Handles the requests of one service.

    Args:
        requester: fetches the parts of large requests.
        verifier: refuses requests whose actor is not signed by an edge; None accepts every actor.
    """

    def __init__(
        self,
        service: str,
        replies: Replies,
        requester: Requester,
        verifier: ActorVerifier | None = None,
    ) -> None:
        self._service = service
        self._replies = replies
        self._requester = requester
        self._verifier = verifier
        self._silent_until_s = 0.0
        self._may_encode = asyncio.Event()
        self._may_encode.set()

    @serves(lambda names: f"{names['message'].subject}, request {req_id_of(names['message'])}")
    async def handle(
        self, message: Message, handler: Handler, *, cancelled: Callable[[], bool]
    ) -> None:
        """Call the handler and send its reply or its failure; raises nothing.

        Args:
            cancelled: whether the caller cancelled this request, rather than the worker stops.
        """
        started_s = time.perf_counter()
        name = _name(message.subject)
        fault: Fault | None = None
        with telemetry.server_span(name, message.headers, message.subject) as span:
            try:
                await self._run(message, handler)
            except asyncio.CancelledError:
                fault = _cancelled() if cancelled() else _stopping()
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
                await self._replies.fail(message, fault.failure)
        seconds = time.perf_counter() - started_s
        code = "ok" if fault is None else fault.code
        telemetry.record(seconds, side="server", service=self._service, code=code)

    async def _run(self, message: Message, handler: Handler) -> None:
        deadline = Deadline.from_headers(message.headers)
        call = Call(
            req_id=req_id_of(message),
            service=self._service,
            subject=message.subject,
            actor=self._actor(message),
            deadline=deadline,
            send_event=lambda event: self._replies.event(message, event),
            instance_only=INSTANCE_ONLY in message.headers,
        )
        if deadline.remaining_s <= 0:
            self._note_late(-deadline.remaining_s)
            raise self._late()
        try:
            with TimeLimit(deadline.remaining_s) as limit:
                reply = await handler(call, await self._body(message, deadline))
                # Within the deadline too: the receiver of a large reply may be gone.
                await self._replies.reply(message, await self._encode(reply))
        except TimeoutError:
            if not limit.expired:  # the handler's own TimeoutError
                raise
            raise self._late() from None

    async def _encode(self, reply: Any) -> bytes:
        """Encode one large reply in each turn of the loop.

        Many at once would leave pings unanswered, and the worker would be taken for lost.
        """
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
            delegation = self._verifier.verify(message.headers, _sent(message))
            received_delegation.set(delegation)
        return Actor.from_header(header)

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
        assembly = Assembly(parts.count, parts.size_bytes, parts.sha256)
        body = None
        for index in range(parts.count):
            request = Request(
                parts.subject,
                index,
                Raw,
                service=self._service,
                timeout_s=max(0.001, deadline.remaining_s),
                replier=PART,
            )
            body = assembly.add(index, await self._requester.send(request))
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
    """The subject without the prefix, the version and the instance that it was sent to."""
    tokens = subject.split(".")[2:]
    return ".".join(tokens[2:] if tokens[:1] == ["at"] else tokens)


def _sent(message: Message) -> Sent:
    """What the actor's signature is for; the whole body is checked against the hash in Parts."""
    parts = message.headers.get(PARTS)
    if parts is None:
        sha256 = hashlib.sha256(message.data).hexdigest()
    else:
        sha256 = decode(parts.encode("utf-8", "replace"), Parts).sha256
    return Sent(message.subject, message.headers.get(REQ_ID, ""), sha256)


def _cancelled() -> Fault:
    return Fault(ErrorCode.CANCELLED, "The caller cancelled the request.")


def _stopping() -> Fault:
    return Fault(ErrorCode.UNAVAILABLE, "The worker is stopping. Try again.")

"""One attempt that waits, and what the messages that come back mean for it (proto/README.md §5)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import Struct

from searchbus_contracts import ErrorCode, Failure, Fault, ToolEvent, decode, is_token
from searchbus_contracts.headers import ACK, CHUNK, ERROR_CODE, ERROR_TEXT, EVENT, SIZE, STARTED

from ..transport import Message
from .parts import LargeReply
from .request import OnEvent
from .transit import Reservation, TransitBudget

log = logging.getLogger("searchbus.bus")

Cause = Literal[
    "refused", "no_responders", "timeout", "connection_lost", "worker_lost", "worker_hung",
    "stopping",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """An attempt that got no reply, and why: the caller decides whether to send it again.
    `instance`: that had the request, where it is known."""

    fault: Fault
    cause: Cause = "refused"
    instance: str = ""


class Pending(Struct):
    """One attempt that waits for its reply.

    Attributes:
        since_s: when it was sent, in the time of the event loop.
        caller: whose limit a large reply counts against.
        expected: what counts against it before the reply's size is known.
        instance: that acknowledged the request; empty before.
        watch: runs once the attempt has been silent for long.
        large: the reply, once it is known to be large.
    """

    outcome: asyncio.Future[bytes | FailedAttempt]
    on_event: OnEvent | None
    on_silence: OnSilence | None
    since_s: float
    caller: str = ""
    expected: Reservation | None = None
    instance: str = ""
    watch: asyncio.Task[None] | None = None
    request_parts: list[memoryview] = []
    large: LargeReply | None = None

    @property
    def ended(self) -> bool:
        """Whether there is an outcome."""
        return self.outcome.done() and not self.outcome.cancelled()

    def end(self, outcome: bytes | FailedAttempt) -> None:
        """Set the outcome, unless there is one."""
        if not self.ended:
            self.wait_again()
            self.outcome.set_result(outcome)

    def wait_again(self) -> None:
        """Take an outcome though the wait was cancelled: a shield costs a fortieth of a call."""
        if self.outcome.cancelled():
            self.outcome = self.outcome.get_loop().create_future()


OnSilence = Callable[[Pending], Coroutine[Any, Any, None]]


def read_reply(
    pending: Pending, message: Message, budget: TransitBudget
) -> bytes | FailedAttempt | None:
    """The outcome that a message brings; None where more messages follow."""
    headers = message.headers
    if not headers:  # a whole reply; everything else says in a header what it is
        return message.data
    if message.no_responders:
        fault = Fault(
            ErrorCode.UNAVAILABLE, "No worker is running that could answer. Try again shortly."
        )
        return FailedAttempt(fault, "no_responders")
    if ERROR_CODE in headers:
        fault = Fault.of(_failure(message))
        if STARTED not in headers:
            return FailedAttempt(fault)
        lost = "The worker that had the request stopped."  # whether to repeat it, the caller knows
        return FailedAttempt(Fault(fault.code, lost), "worker_lost", pending.instance)
    try:
        if EVENT in headers:
            if pending.on_event is not None:
                pending.on_event(decode(message.data, ToolEvent))
            return None
        if ACK in headers:
            pending.instance = headers[ACK] if is_token(headers[ACK]) else ""
            return None
        if SIZE not in headers and CHUNK not in headers:
            return message.data
        if pending.large is None:
            pending.large = LargeReply(budget, pending.caller, pending.expected)
        if SIZE in headers:
            pending.large.announced(message)
            return None
        return pending.large.add(message)
    except Fault as fault:
        if fault.code != ErrorCode.INVALID_ARGUMENT:
            return FailedAttempt(fault)
        log.warning("a reply could not be read: %s", fault)  # the worker's fault, not the caller's
    except Exception:
        log.exception("a reply could not be read")
    return FailedAttempt(
        Fault(ErrorCode.INTERNAL, "The reply could not be understood. Report it to the operator.")
    )


def _failure(message: Message) -> Failure:
    """The failure in a reply; from its headers alone where another library wrote the body."""
    try:
        return decode(message.data, Failure)
    except Fault:
        text = message.headers.get(ERROR_TEXT, "The service failed without a message.")
        return Fault(message.headers[ERROR_CODE], text).failure

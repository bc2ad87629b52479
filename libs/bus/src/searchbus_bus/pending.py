"""One attempt that waits for its reply, and what each message for it means.

A message is an event, an acknowledgement, a part of a large reply, a failure, or the reply.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import Struct

from searchbus_contracts import ErrorCode, Failure, Fault, ToolEvent, decode, is_token
from searchbus_contracts.headers import ACK, CHUNK, ERROR_CODE, ERROR_TEXT, EVENT, SIZE
from searchbus_contracts.subjects import is_credit_subject

from . import telemetry
from .parts import WINDOW_PARTS, Assembly, ChunkMark
from .request import OnEvent
from .transit import Reservation, TransitBudget
from .transport import Message

__all__ = ["Failed", "OnSilence", "Pending", "read_reply"]

log = logging.getLogger("searchbus.bus")

RETRY_AFTER_MS = 1000
_SIZE = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt that got no reply, and why: the caller decides whether to send it again.

    Args:
        instance: that had the request, where it is known.
    """

    fault: Fault
    cause: Literal[
        "refused", "no_responders", "timeout", "connection_lost", "worker_lost", "too_large_now"
    ] = "refused"
    instance: str = ""


class Pending(Struct):
    """One attempt that waits for its reply.

    Attributes:
        instance: that acknowledged the request; empty before.
        since_s: when it was sent, in the time of the event loop.
        watch: runs once the attempt has been silent for long.
        caller: whose limit a large reply counts against.
        reservation: of a large reply that was admitted.
        credit_subject: where its sender waits for credit; empty where it sends without.
        allowed: the parts that its sender may send.
    """

    outcome: asyncio.Future[bytes | Failed]
    on_event: OnEvent | None
    on_silence: OnSilence | None
    since_s: float
    instance: str = ""
    watch: asyncio.Task[None] | None = None
    request_parts: list[memoryview] = []
    assembly: Assembly | None = None
    caller: str = ""
    reservation: Reservation | None = None
    credit_subject: str = ""
    allowed: int = 0

    def credit(self) -> int:
        """How many parts the sender may send from now on; 0 where that was sent already."""
        received = self.assembly.received if self.assembly is not None else 0
        allowed = received + WINDOW_PARTS
        # Half a window at once: each credit is a message.
        if not self.credit_subject or allowed - self.allowed < WINDOW_PARTS // 2:
            return 0
        self.allowed = allowed
        return allowed

    def end(self, outcome: bytes | Failed) -> None:
        """Set the outcome, unless there is one."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)


OnSilence = Callable[[Pending], Coroutine[Any, Any, None]]


def read_reply(pending: Pending, message: Message, budget: TransitBudget) -> bytes | Failed | None:
    """The outcome that a message brings; None where more messages follow."""
    headers = message.headers
    if not headers:  # a whole reply; everything else says in a header what it is
        return message.data
    if message.no_responders:
        return Failed(
            Fault(
                ErrorCode.UNAVAILABLE, "No worker is running that could answer. Try again shortly."
            ),
            "no_responders",
        )
    if ERROR_CODE in headers:
        return Failed(Fault.of(_failure(message)))
    try:
        if EVENT in headers:
            if pending.on_event is not None:
                pending.on_event(decode(message.data, ToolEvent))
            return None
        if ACK in headers:
            pending.instance = headers[ACK] if is_token(headers[ACK]) else ""
            return None
        if SIZE in headers:
            return _read_announcement(pending, message, budget)
        if CHUNK not in headers:
            return message.data
        return _read_part(pending, message, budget)
    except Fault as fault:
        return Failed(fault)
    except Exception:
        log.exception("a reply could not be read")
        return Failed(
            Fault(
                ErrorCode.INTERNAL, "The reply could not be understood. Report it to the operator."
            )
        )


def _read_part(pending: Pending, message: Message, budget: TransitBudget) -> bytes | Failed | None:
    """Take a part of a large reply; raises Fault where it is malformed."""
    mark = ChunkMark.parse(message.headers[CHUNK])
    if pending.assembly is None:
        pending.assembly = Assembly(mark.count, mark.size_bytes, mark.sha256)
        if pending.reservation is None:  # from a worker of an earlier release, which announces none
            pending.reservation = budget.reserve(pending.caller, mark.size_bytes)
            if pending.reservation is None:
                return _refused(mark.size_bytes)
    return pending.assembly.add(mark.index, message.data)


def _read_announcement(pending: Pending, message: Message, budget: TransitBudget) -> Failed | None:
    """Admit a large reply before its parts are sent; raises Fault where it is malformed."""
    digits = message.headers[SIZE]
    if not _SIZE.fullmatch(digits) or not is_credit_subject(message.reply):
        # To another subject, a worker could make this process publish what only this one may.
        raise Fault(
            ErrorCode.INTERNAL,
            "The announcement of a large reply is malformed. Report it to the operator.",
        )
    if pending.credit_subject:
        return None
    pending.credit_subject = message.reply
    pending.reservation = budget.reserve(pending.caller, int(digits))
    return _refused(int(digits)) if pending.reservation is None else None


def _refused(size_bytes: int) -> Failed:
    """The failure of a large reply that does not fit into the budget now."""
    telemetry.count_error("large_reply")
    return Failed(
        Fault(
            ErrorCode.OVERLOADED,
            f"Too many large answers are being sent at the same time; this one has "
            f"{size_bytes / 1e6:.1f} MB. Try again in a second, or ask for less.",
            retry_after_ms=RETRY_AFTER_MS,
        ),
        "too_large_now",
    )


def _failure(message: Message) -> Failure:
    """The failure in a reply; from its headers alone where another library wrote the body."""
    try:
        return decode(message.data, Failure)
    except Fault:
        text = message.headers.get(ERROR_TEXT, "The service failed without a message.")
        return Fault(message.headers[ERROR_CODE], text).failure

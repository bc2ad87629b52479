"""One attempt that waits for its reply, and what each message for it means.

A message is an event, an acknowledgement, a part of a large reply, a failure, or the reply.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import Struct

from searchbus_contracts import ErrorCode, Failure, Fault, ToolEvent, decode, is_token
from searchbus_contracts.headers import ACK, CHUNK, ERROR_CODE, ERROR_TEXT, EVENT

from .parts import Assembly, ChunkMark
from .request import OnEvent
from .transport import Message

__all__ = ["Failed", "OnSilence", "Pending", "read_reply"]

log = logging.getLogger("searchbus.bus")


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt that got no reply, and why: the caller decides whether to send it again.

    Args:
        instance: that had the request, where it is known.
    """

    fault: Fault
    cause: Literal["refused", "no_responders", "timeout", "connection_lost", "worker_lost"] = (
        "refused"
    )
    instance: str = ""


class Pending(Struct):
    """One attempt that waits for its reply.

    Attributes:
        instance: that acknowledged the request; empty before.
        since_s: when it was sent, in the time of the event loop.
        watch: runs once the attempt has been silent for long.
    """

    outcome: asyncio.Future[bytes | Failed]
    on_event: OnEvent | None
    on_silence: OnSilence | None
    since_s: float
    instance: str = ""
    watch: asyncio.Task[None] | None = None
    request_parts: list[memoryview] = []
    assembly: Assembly | None = None

    def end(self, outcome: bytes | Failed) -> None:
        """Set the outcome, unless there is one."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)


OnSilence = Callable[[Pending], Coroutine[Any, Any, None]]


def read_reply(pending: Pending, message: Message) -> bytes | Failed | None:
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
        if CHUNK not in headers:
            return message.data
        mark = ChunkMark.parse(headers[CHUNK])
        if pending.assembly is None:
            pending.assembly = Assembly(mark.count, mark.size_bytes, mark.sha256)
        return pending.assembly.add(mark.index, message.data)
    except Fault as fault:
        return Failed(fault)
    except Exception:
        log.exception("a reply could not be read")
        return Failed(
            Fault(
                ErrorCode.INTERNAL, "The reply could not be understood. Report it to the operator."
            )
        )


def _failure(message: Message) -> Failure:
    """The failure in a reply; from its headers alone where another library wrote the body."""
    try:
        return decode(message.data, Failure)
    except Fault:
        text = message.headers.get(ERROR_TEXT, "The service failed without a message.")
        return Fault(message.headers[ERROR_CODE], text).failure

"""What a request carries, and its deadline as it crosses processes (proto/README.md §4.1)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from msgspec import Struct

from searchbus_contracts import Actor, ErrorCode, Fault, ToolEvent
from searchbus_contracts.headers import DEADLINE_MS, TIMEOUT_MS

DEFAULT_TIMEOUT_S = 30.0
"""The budget of a request without either header, in seconds."""


class Deadline(Struct, frozen=True):
    """A moment on this process's monotonic clock, in seconds."""

    at_s: float

    @classmethod
    def after(cls, timeout_s: float) -> Deadline:
        """The moment `timeout_s` seconds from now."""
        return cls(time.monotonic() + timeout_s)

    @classmethod
    def from_headers(cls, headers: Mapping[str, str], most_s: float = math.inf) -> Deadline:
        """Read a request's headers, `most_s` seconds from now at the latest; raises
        Fault(invalid_argument) for a malformed one."""
        left_s = [most_s, DEFAULT_TIMEOUT_S]
        if TIMEOUT_MS in headers:
            left_s[1] = _ms(headers, TIMEOUT_MS) / 1000
        if DEADLINE_MS in headers:
            left_s.append(_ms(headers, DEADLINE_MS) / 1000 - time.time())
        return cls.after(min(left_s))

    @property
    def remaining_s(self) -> float:
        """Seconds left; negative once it has passed."""
        return self.at_s - time.monotonic()

    def to_headers(self) -> dict[str, str]:
        """Both headers, for a request sent now."""
        left_ms = max(0, int(self.remaining_s * 1000))
        return {TIMEOUT_MS: str(left_ms), DEADLINE_MS: str(int(time.time() * 1000) + left_ms)}


received_deadline: ContextVar[Deadline | None] = ContextVar("received_deadline", default=None)
"""The deadline of the request that the current task handles."""


def _ms(headers: Mapping[str, str], name: str) -> int:
    value = headers[name]
    if not (value.isascii() and value.isdigit() and len(value) <= 16):
        raise Fault(
            ErrorCode.INVALID_ARGUMENT, f"Header {name} is not a number of milliseconds. Send one."
        )
    return int(value)


T = TypeVar("T")
OnEvent = Callable[[ToolEvent], None]


class _Addressed(Struct, Generic[T], frozen=True):
    subject: str
    message: Any
    reply_type: type[T]


class Request(_Addressed[T], Generic[T], frozen=True, kw_only=True):
    """One request and the type of its reply.

        Request(subject, GetRequest(document_id="x"), Document, service="retrieval", timeout_s=5.0)

    Args:
        service: the service that replies, for cancelling and for telemetry.
        timeout_s: the budget of all attempts together, in seconds.
        actor: on whose behalf the request is sent.
        on_event: called for progress and log lines that come before the reply.
        idempotent: whether the request may be repeated after a lost connection or worker.
        replier: who replies, where it is not a service; see searchbus_contracts.subjects.
        instance: the instance to ask first; by default whichever the queue group picks.
        instance_only: whether no other instance can do it: the request is sent once, and fails with
            InstanceGoneError where the instance has left. The receiver must not pass it on.
    """

    service: str
    timeout_s: float = DEFAULT_TIMEOUT_S
    actor: Actor | None = None
    on_event: OnEvent | None = None
    idempotent: bool = True
    replier: str = ""
    instance: str | None = None
    instance_only: bool = False


class InstanceGoneError(Fault):
    """The only instance that a request was for (`Request.instance_only`) has left the bus;
    `received`: it may have done the work."""

    def __init__(self, message: str, *, received: bool) -> None:
        super().__init__(ErrorCode.UNAVAILABLE, message, retryable=not received)
        self.received = received

"""What a request carries; `Bus.send`, `Bus.gather` and everything below them take one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from msgspec import Struct

from searchbus_contracts import Actor, ErrorCode, Fault, ToolEvent

from .deadline import DEFAULT_TIMEOUT_S

__all__ = ["InstanceGone", "OnEvent", "Request"]

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
        instance: of the service, to ask first; by default whichever the queue group picks.
        instance_only: whether no other instance can do it: the request is sent once, and fails with
            InstanceGone where the instance has left. The receiver must not pass it on.
    """

    service: str
    timeout_s: float = DEFAULT_TIMEOUT_S
    actor: Actor | None = None
    on_event: OnEvent | None = None
    idempotent: bool = True
    replier: str = ""
    instance: str | None = None
    instance_only: bool = False


class InstanceGone(Fault):
    """The only instance that a request was for (`Request.instance_only`) has left the bus.

    Args:
        received: whether it may have received the request, and done the work.
    """

    def __init__(self, message: str, *, received: bool) -> None:
        super().__init__(ErrorCode.UNAVAILABLE, message, retryable=not received)
        self.received = received

"""Trace context over NATS headers (W3C), the metrics of the bus, gauges over live objects.

Names follow OpenTelemetry's semantic conventions for messaging where these have one.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Counter, Meter, Observation
from opentelemetry.trace import (
    DEFAULT_TRACE_STATE,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.headers import TRACEPARENT, TRACESTATE

T = TypeVar("T")

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Bucket bounds of durations in seconds; OpenTelemetry's defaults fit milliseconds."""


class LiveGauge(Generic[T]):
    """A gauge over objects; `read` gives values with attributes of each until it is collected."""

    def __init__(
        self,
        meter: Meter,
        name: str,
        read: Callable[[T], Iterable[tuple[float, Mapping[str, str]]]],
        *,
        description: str = "",
    ) -> None:
        self._read = read
        self._live: WeakSet[T] = WeakSet()
        meter.create_observable_gauge(
            name, callbacks=[self._observe], unit="1", description=description
        )

    def watch(self, thing: T) -> None:
        """Read this object from now on."""
        self._live.add(thing)

    def _observe(self, _: CallbackOptions) -> Iterable[Observation]:
        # Values with equal attributes (a worker served twice in one process) are summed.
        sums: dict[tuple[tuple[str, str], ...], float] = {}
        for thing in list(self._live):
            for value, attributes in self._read(thing):
                key = tuple(sorted(attributes.items()))
                sums[key] = sums.get(key, 0.0) + value
        return [Observation(value, dict(key)) for key, value in sums.items()]


meter = metrics.get_meter("searchbus.bus")
_CODES = frozenset({"ok", *map(str, ErrorCode)})
_propagator = TraceContextTextMapPropagator()
_NO_CONTEXT = Context()
_USUAL = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
"""A traceparent of today's version; the propagator reads all others, at four times the cost."""
_duration = meter.create_histogram(
    "searchbus.bus.request.duration",
    unit="s",
    description="Requests on the bus, by side (client, server), worker and code.",
    explicit_bucket_boundaries_advisory=SECONDS,
)
_certificate_ends: dict[str, float] = {}
meter.create_observable_gauge(
    "searchbus.certificate.end",
    callbacks=[
        lambda _: [Observation(end_s, {"server": at}) for at, end_s in _certificate_ends.items()]
    ],
    unit="s",
    description="When the certificate of a server ends, in seconds of the epoch.",
)
_reconnects = meter.create_counter(
    "searchbus.bus.reconnects", description="Connections to NATS that were lost and regained."
)
_known: list[tuple[Counter, str, str]] = []


def create_counter(name: str, label: str, *known: str, description: str) -> Callable[..., None]:
    """What counts one more, or a number, of a value of the label; `start` shows the known ones."""
    counter = meter.create_counter(name, description=description)
    _known.extend((counter, label, value) for value in known)

    def count(value: str, number: int = 1) -> None:
        counter.add(number, {label: value})

    return count


count_shed = create_counter(
    "searchbus.worker.shed", "worker",
    description="Requests that a worker at its limit refused at once.",
)  # fmt: skip
count_error = create_counter(
    "searchbus.bus.errors", "kind",
    "permission", "slow_consumer", "other", "store", "cancel", "late", "large_reply",
    description="Errors that NATS reports outside any call (permission, slow_consumer, other), "
    "operations of the key-value store that failed (store), cancellations that cannot be read "
    "(cancel), requests that came long after their deadline (late), large replies that were "
    "refused because too many were on their way (large_reply).",
)  # fmt: skip
count_refused = create_counter(
    "searchbus.catalog.refused", "reason",
    "descriptor", "toolset", "service", "event", "instance", "catalog",
    description="What workers announced and was ignored: descriptor, toolset, service, event, "
    "instance; catalogues that could not be read (catalog).",
)  # fmt: skip
count_refused_credential = create_counter(
    "searchbus.credential.refused", "setting",
    description="Times that a credential of this process was refused, by the name of its setting.",
)  # fmt: skip
count_failed = create_counter(
    "searchbus.background.failed", "work", "commit", "facts", "index", "sizes",
    description="Work that failed while no caller waited for it: commit (of a document), facts "
    "(of a document, not readable), index "
    "(an update of the tool index), sizes (a count of the collections).",
)  # fmt: skip


@cache
def _tracer() -> Tracer:
    # At the first span: one that is made before the process has its provider is a slower proxy.
    return trace.get_tracer("searchbus.bus")


def inject(headers: dict[str, str], span: Span) -> None:
    """Add a span's trace context to a message's headers."""
    # A tuple, whose fields cost a call each by name.
    *_, state, valid = span.get_span_context()
    if not valid:
        return
    headers[TRACEPARENT] = traceparent(span)
    if state is not DEFAULT_TRACE_STATE and state:
        headers[TRACESTATE] = state.to_header()


def traceparent(span: Span) -> str:
    """The ids and flags of a span as W3C Trace Context writes them."""
    made: str | None = getattr(span, "traceparent", None)  # our own spans keep it
    if made is not None:
        return made
    found = span.get_span_context()
    return f"00-{found.trace_id:032x}-{found.span_id:016x}-{int(found.trace_flags):02x}"


def extract(headers: Mapping[str, str]) -> Context:
    """The trace context of a message; an empty one where it has none."""
    value = headers.get(TRACEPARENT)
    if value is None:
        return _NO_CONTEXT
    usual = _USUAL.fullmatch(value) if TRACESTATE not in headers else None
    if usual is None:
        return _propagator.extract(headers, _NO_CONTEXT)
    trace_id, span_id, flags = (int(digits, 16) for digits in usual.groups())
    found = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
    if not found.is_valid:
        return _NO_CONTEXT
    return trace.set_span_in_context(NonRecordingSpan(found), _NO_CONTEXT)


def trace_id() -> str:
    """The current trace's id as 32 hex digits; zeros outside any trace."""
    return format(trace.get_current_span().get_span_context().trace_id, "032x")


def record(seconds: float, *, side: str, service: str, code: str) -> None:
    """Count one request and its duration."""
    # A peer may send any text for a code, and each would be a time series for ever.
    known = code if code in _CODES else "other"
    _duration.record(seconds, {"side": side, "worker": service, "code": known})


def note_certificate(server: str, found: Mapping[str, Any] | None) -> None:
    """Take the certificate (of `getpeercert`) of a server at a connect; the newest counts."""
    if found and "notAfter" in found:
        _certificate_ends[server] = float(ssl.cert_time_to_seconds(found["notAfter"]))


def start() -> None:
    """Publish every counter as zero: a first value of one is not seen as an increase."""
    for counter, label, value in _known:
        counter.add(0, {label: value})
    _reconnects.add(0)


def count_reconnect() -> None:
    """Count a connection that came back."""
    _reconnects.add(1)


class EndedSpan:
    """Ends a span, with a Fault that leaves it as its status; a generator costs a span more."""

    __slots__ = ("_span",)

    def __init__(self, span: Span) -> None:
        self._span = span

    def __enter__(self) -> Span:
        return self._span

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if isinstance(error, Fault):
            mark(self._span, error)
        self._span.end()


class CurrentSpan(EndedSpan):
    """Makes a span the current one, too."""

    __slots__ = ("_token",)

    def __enter__(self) -> Span:
        self._token = otel_context.attach(trace.set_span_in_context(self._span))
        return self._span

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        otel_context.detach(self._token)
        EndedSpan.__exit__(self, kind, error, traceback)


def client_span(subject: str, service: str, *, req_id: str, size_bytes: int) -> EndedSpan:
    """The span of one request on the caller's side; nothing inside starts another one."""
    return EndedSpan(
        _tracer().start_span(
            f"request {service}",
            # Its context goes with the message, so that its receiver's span is a child.
            kind=SpanKind.PRODUCER,
            attributes={
                "messaging.system": "nats",
                "messaging.operation.name": "request",
                "messaging.operation.type": "send",
                "messaging.destination.name": subject,
                "messaging.message.conversation_id": req_id,
                "messaging.message.body.size": size_bytes,
                "service.peer.name": service,
            },
        )
    )


def server_span(name: str, headers: Mapping[str, str], subject: str) -> CurrentSpan:
    """The span of one request on the worker's side, child of the caller's, named by the subject
    without what differs from one instance or catalogue to another."""
    return CurrentSpan(
        _tracer().start_span(
            f"process {name}",
            context=extract(headers),
            kind=SpanKind.CONSUMER,
            attributes={
                "messaging.system": "nats",
                "messaging.operation.name": "process",
                "messaging.operation.type": "process",
                "messaging.destination.name": subject,
                "messaging.destination.template": name,
            },
        )
    )


def mark(span: Span, fault: Fault) -> None:
    """Set a typed failure as the status of a span."""
    span.set_attribute("error.type", fault.code)
    span.set_status(Status(StatusCode.ERROR, fault.code))

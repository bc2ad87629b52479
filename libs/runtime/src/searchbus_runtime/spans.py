"""Spans that cost little to record: the tracer behind OpenTelemetry's API in every process.

The SDK's own tracer takes locks and copies attributes at every step, a quarter of a request's time
at the edge. This one keeps what OpenTelemetry's API gives it, decides as the SDK's
`ParentBased(TraceIdRatioBased(ratio))` does, and hands ended spans to a processor of the SDK's
kind: its own for a collector, `TraceFile` without one. Its spans have the fields that both read.

Attributes are kept as they are given: str, bool, int, float, or sequences of these.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    DEFAULT_TRACE_STATE,
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)

from .logs import LineQueue
from .traces import SpanRecord

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_NOT_SAMPLED = TraceFlags(TraceFlags.DEFAULT)
UNSET = Status(StatusCode.UNSET)
"""Status of every span whose outcome nobody has set."""
_LOW_64_BITS = (1 << 64) - 1


class LightTracerProvider(trace.TracerProvider):
    """Makes tracers whose ended spans go to one processor, if any, for a share of the traces (0 to
    1); a span with a parent follows it."""

    def __init__(
        self, resource: Resource, *, ratio: float = 1.0, processor: SpanProcessor | None = None
    ) -> None:
        self.resource = resource
        self.bound = round(ratio * (1 << 64))
        self.processor = processor

    def get_tracer(
        self,
        instrumenting_module_name: str,
        instrumenting_library_version: str | None = None,
        schema_url: str | None = None,
        attributes: Any = None,
    ) -> LightTracer:
        """A tracer of one library."""
        scope = InstrumentationScope(instrumenting_module_name, instrumenting_library_version)
        return LightTracer(self, scope)

    def shutdown(self) -> None:
        """Export what is left and stop."""
        if self.processor is not None:
            self.processor.shutdown()


class LightTracer(trace.Tracer):
    """Starts spans of one library."""

    def __init__(self, provider: LightTracerProvider, scope: InstrumentationScope) -> None:
        self._provider = provider
        self._scope = scope

    def start_span(
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Mapping[str, Any] | None = None,
        links: Sequence[Link] | None = None,
        start_time: int | None = None,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
    ) -> trace.Span:
        """Start a span; one that is not sampled records nothing."""
        parent: SpanContext | None = None
        valid = False
        if context is None or context:  # an empty one has no span
            parent = trace.get_current_span(context).get_span_context()
            # A tuple, whose fields cost a call each by name.
            trace_id, _, _, parent_flags, state, valid = parent
        if valid:
            sampled = bool(parent_flags & TraceFlags.SAMPLED)
        else:
            parent, state = None, DEFAULT_TRACE_STATE
            trace_id = random.getrandbits(128) or 1
            sampled = (trace_id & _LOW_64_BITS) < self._provider.bound
        span_id = random.getrandbits(64) or 1
        flags = _SAMPLED if sampled else _NOT_SAMPLED
        # Its constructor would check ids that are known to be valid.
        found = tuple.__new__(SpanContext, (trace_id, span_id, False, flags, state, True))
        if not sampled or self._provider.processor is None:
            return NonRecordingSpan(found)
        return LightSpan(
            name, found, parent, kind, dict(attributes) if attributes else {}, links or (),
            start_time or time.time_ns(), self._provider, self._scope,
        )  # fmt: skip

    @contextmanager
    def start_as_current_span(  # type: ignore[override]  # a plain context manager
        self,
        name: str,
        *fields: Any,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
        end_on_exit: bool = True,
        **options: Any,
    ) -> Iterator[trace.Span]:
        """Start a span, with the arguments of `start_span`, and make it the current one."""
        span = self.start_span(name, *fields, **options)
        token = otel_context.attach(trace.set_span_in_context(span))
        try:
            yield span
        except Exception as error:
            if record_exception:
                span.record_exception(error)
            if set_status_on_exception:
                # Its text may repeat what a caller sent.
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            otel_context.detach(token)
            if end_on_exit:
                span.end()


@dataclass(slots=True, eq=False)
class LightSpan(trace.Span):
    """One span; while it runs, and afterwards as the exporters read it."""

    name: str
    context: SpanContext
    parent: SpanContext | None
    kind: SpanKind
    attributes: dict[str, Any]
    links: Sequence[Link]
    start_time: int
    provider: LightTracerProvider
    instrumentation_scope: InstrumentationScope
    events: list[Event] = field(default_factory=list)
    status: Status = UNSET
    end_time: int | None = None
    _traceparent: str = ""
    dropped_attributes: ClassVar[int] = 0
    dropped_events: ClassVar[int] = 0
    dropped_links: ClassVar[int] = 0

    @property
    def traceparent(self) -> str:
        """Its ids and flags as W3C Trace Context writes them; made once."""
        if not self._traceparent:
            trace_id, span_id = self.context[:2]
            # As bytes they are written in two thirds of the time of a number's format.
            ids = trace_id.to_bytes(16, "big").hex(), span_id.to_bytes(8, "big").hex()
            self._traceparent = f"00-{ids[0]}-{ids[1]}-01"
        return self._traceparent

    @property
    def resource(self) -> Resource:
        """Resource of the process."""
        return self.provider.resource

    def get_span_context(self) -> SpanContext:
        """Its ids and flags."""
        return self.context

    def is_recording(self) -> bool:
        """Whether it has not ended."""
        return self.end_time is None

    def set_attribute(self, key: str, value: Any) -> None:
        """Set one attribute."""
        if self.end_time is None:
            self.attributes[key] = value

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set several."""
        if self.end_time is None:
            self.attributes.update(attributes)

    def update_name(self, name: str) -> None:
        """Replace the name."""
        if self.end_time is None:
            self.name = name

    def add_event(
        self, name: str, attributes: Mapping[str, Any] | None = None, timestamp: int | None = None
    ) -> None:
        """Add an event."""
        if self.end_time is None:
            self.events.append(Event(name, attributes, timestamp or time.time_ns()))

    def add_link(self, context: SpanContext, attributes: Mapping[str, Any] | None = None) -> None:
        """Add a link."""
        if self.end_time is None:
            self.links = (*self.links, Link(context, attributes))

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Set the outcome; OK is final, and UNSET changes nothing."""
        found = status if isinstance(status, Status) else Status(status, description)
        final = self.status.status_code is StatusCode.OK
        if self.end_time is None and not final and not found.is_unset:
            self.status = found

    def record_exception(
        self,
        exception: BaseException,
        attributes: Mapping[str, Any] | None = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        """Add an event with the type of an exception."""
        fields = {"exception.type": type(exception).__qualname__, **(attributes or {})}
        self.add_event("exception", fields, timestamp)

    def end(self, end_time: int | None = None) -> None:
        """End the span and queue it for export."""
        if self.end_time is None:
            self.end_time = end_time or time.time_ns()
            assert self.provider.processor is not None
            self.provider.processor.on_end(self)  # type: ignore[arg-type]


log = logging.getLogger("searchbus.process")
FLUSH_S = 0.2
"""So that `searchbus trace --last` finds a call that has just ended."""
_encoder = msgspec.json.Encoder(enc_hook=str)
_kinds = {kind.value: kind.name.lower() for kind in SpanKind}
# The name and the attribute that the SDK's processor has for a collector.
_processed = metrics.get_meter("searchbus.runtime").create_counter(
    "otel.sdk.processor.span.processed",
    description="Spans that were written, and with an error_type those that were lost.",
)

_Line: Any = msgspec.defstruct("_Line", [one.name for one in fields(SpanRecord)])
"""One span in the file: what `traces` reads, as a type that is made and encoded quicker."""


class TraceFile(SpanProcessor):
    """Writes ended spans as JSON lines to a local file that all processes share (see traces.py).

    Every process appends whole lines with one write. A full file is renamed to `<name>.1`, so that
    at most twice the limit is kept. Beyond `max_queued`, spans are lost and counted.
    """

    def __init__(
        self, path: Path, *, service: str, max_bytes: int, max_queued: int = 16_384
    ) -> None:
        self._path = path
        self._service = service
        self._max_bytes = max_bytes
        self._failing = False
        self._lines = LineQueue(self._write, name="traces", every_s=FLUSH_S, max_queued=max_queued)
        path.parent.mkdir(parents=True, exist_ok=True)

    def on_end(self, span: LightSpan) -> None:  # type: ignore[override]
        """Queue the line of a span; raises nothing."""
        try:
            line = _encoder.encode(self._line(span))
        except (ValueError, TypeError) as error:  # e.g. half a surrogate pair in an attribute
            _processed.add(1, {"error.type": type(error).__name__})
            return
        if not self._lines.add(line):
            _processed.add(1, {"error.type": "queue_full"})

    def force_flush(self, timeout_millis: int | None = None) -> bool:
        """Write what is queued."""
        self._lines.flush()
        return True

    def shutdown(self) -> None:
        """Write what is queued and stop."""
        self._lines.close()

    def _write(self, lines: list[bytes]) -> None:
        """Append lines; while that fails, they are lost and counted."""
        try:
            self._append(b"\n".join(lines) + b"\n")
        except OSError as error:
            _processed.add(len(lines), {"error.type": type(error).__name__})
            if not self._failing:
                log.error("spans cannot be written to %s: %s", self._path, error)
            self._failing = True
        else:
            _processed.add(len(lines))
            self._failing = False

    def _append(self, data: bytes) -> None:
        # The lock makes "is it full, then rename" one step among several processes.
        with self._path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._path.exists() and self._path.stat().st_size > self._max_bytes:
                self._path.replace(self._path.with_name(self._path.name + ".1"))
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                size = os.fstat(descriptor).st_size
                if os.write(descriptor, data) < len(data):
                    os.ftruncate(descriptor, size)  # a torn line would spoil the next one, too
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(descriptor)

    def _line(self, span: LightSpan) -> Any:
        ids = span.traceparent
        return _Line(
            ids[3:35],
            ids[36:52],
            span.parent.span_id.to_bytes(8, "big").hex() if span.parent else None,
            span.name,
            _kinds[span.kind._value_],  # `value`, and the hash of a member, are Python functions
            self._service,
            span.start_time,
            span.end_time,
            None if span.status is UNSET else _error(span.status),
            span.attributes,
        )


def _error(status: Status) -> str | None:
    failed = status.status_code is StatusCode.ERROR
    return (status.description or "error") if failed else None

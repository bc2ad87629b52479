"""Trace context in headers, and spans that say how a request ended."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from searchbus_bus import SECONDS, LiveGauge, telemetry
from searchbus_contracts import Fault

TRACE_ID, SPAN_ID = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
PARENT = NonRecordingSpan(
    SpanContext(TRACE_ID, SPAN_ID, is_remote=False, trace_flags=TraceFlags(1))
)


class RecordingSpan(NonRecordingSpan):
    def __init__(self) -> None:
        super().__init__(PARENT.get_span_context())
        self.attributes: dict[str, object] = {}
        self.status: object = None

    def set_attribute(self, key: str, value: object) -> None:
        self.attributes[key] = value

    def set_status(self, status: object, description: str | None = None) -> None:
        self.status = status


def test_the_trace_context_crosses_processes_in_lower_case_headers():
    """W3C Trace Context; NATS compares header names exactly."""
    headers: dict[str, str] = {}
    telemetry.inject(headers, PARENT)
    assert headers == {"traceparent": f"00-{TRACE_ID:032x}-{SPAN_ID:016x}-01"}
    context = trace.get_current_span(telemetry.extract(headers)).get_span_context()
    assert (context.trace_id, context.span_id, context.is_remote) == (TRACE_ID, SPAN_ID, True)


def test_a_malformed_or_missing_context_starts_a_new_trace():
    """It comes from any peer."""
    for headers in ({}, {"traceparent": "00-zz"}, {"Traceparent": f"00-{TRACE_ID:032x}-1-01"}):
        span = trace.get_current_span(telemetry.extract(headers))
        assert not span.get_span_context().is_valid


@pytest.mark.parametrize("traceparent", [
    f"00-{TRACE_ID:032x}-{SPAN_ID:016x}-01",
    f"00-{TRACE_ID:032x}-{SPAN_ID:016x}-00",
    f"00-{TRACE_ID:032x}-{SPAN_ID:016x}-01-more",
    f"cc-{TRACE_ID:032x}-{SPAN_ID:016x}-01-more",
    f"ff-{TRACE_ID:032x}-{SPAN_ID:016x}-01",
    f"00-{0:032x}-{SPAN_ID:016x}-01",
    f"00-{TRACE_ID:032x}-{0:016x}-01",
    f"00-{TRACE_ID:032X}-{SPAN_ID:016x}-01",
    f"00-{TRACE_ID:032x}-{SPAN_ID:016x}-1",
    "",
])  # fmt: skip
@pytest.mark.parametrize("more", [{}, {"tracestate": "a=1,b=2"}])
def test_a_context_is_read_as_the_propagator_reads_it(traceparent, more):
    """Also the usual form, which is read without it."""
    headers = {"traceparent": traceparent, **more}
    expected = TraceContextTextMapPropagator().extract(headers, Context())
    found, wanted = (
        trace.get_current_span(context).get_span_context()
        for context in (telemetry.extract(headers), expected)
    )
    assert found == wanted


def test_the_trace_id_is_32_hex_digits():
    """Zeros outside of a trace; it stands in messages of internal errors."""
    assert telemetry.trace_id() == "0" * 32
    with trace.use_span(PARENT):
        assert telemetry.trace_id() == f"{TRACE_ID:032x}"


def test_a_failure_is_the_status_of_its_span():
    """Its code only: the message may name what a user typed."""
    span = RecordingSpan()
    telemetry.mark(span, Fault("not_found", "No 'secret'."))
    assert span.attributes == {"error.type": "not_found"}
    assert "secret" not in str(vars(span.status))


def test_codes_of_the_wire_are_counted_and_all_others_together(monkeypatch):
    """A peer may send any text, and each would be a time series."""
    counted = []
    duration = SimpleNamespace(record=lambda seconds, labels: counted.append(labels["code"]))
    monkeypatch.setattr(telemetry, "_duration", duration)
    for code in ("ok", "not_found", "x1", "x2"):
        telemetry.record(0.1, side="client", service="toy", code=code)
    assert counted == ["ok", "not_found", "other", "other"]


class Meter:
    def create_observable_gauge(self, name: str, callbacks: list[Any], **options: Any) -> None:
        self.name = name
        self._callbacks = callbacks

    def read(self) -> dict[tuple[tuple[str, str], ...], float]:
        found = [o for callback in self._callbacks for o in callback(None)]
        return {tuple(sorted(o.attributes.items())): o.value for o in found}


class Pool:
    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size


def gauge() -> tuple[Meter, LiveGauge[Pool]]:
    meter = Meter()
    return meter, LiveGauge(meter, "pools", lambda p: [(p.size, {"pool": p.name})])  # type: ignore[arg-type]


def test_watched_objects_are_read_when_the_gauge_is():
    """The value at that moment."""
    meter, pools = gauge()
    pool = Pool("a", 1)
    pools.watch(pool)
    pool.size = 7
    assert meter.read() == {(("pool", "a"),): 7}


def test_values_with_equal_attributes_are_summed():
    """A worker served twice in one process is one time series."""
    meter, pools = gauge()
    kept = [Pool("a", 1), Pool("a", 2), Pool("b", 4)]
    for pool in kept:
        pools.watch(pool)
    assert meter.read() == {(("pool", "a"),): 3, (("pool", "b"),): 4}


def test_an_object_that_is_gone_is_not_read():
    """The gauge keeps nothing alive."""
    meter, pools = gauge()
    pool = Pool("a", 1)
    pools.watch(pool)
    del pool
    gc.collect()
    assert meter.read() == {}


def test_buckets_of_seconds_increase():
    """From a millisecond to a minute."""
    assert list(SECONDS) == sorted(set(SECONDS))
    assert (SECONDS[0], SECONDS[-1]) == (0.001, 60)

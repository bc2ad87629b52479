"""The tracer behind OpenTelemetry's API: what the SDK's records for the same calls."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
)

from searchbus_runtime.spans import LightTracerProvider

RESOURCE = Resource({"service.name": "here"})


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exporter):
    provider = LightTracerProvider(RESOURCE, processor=SimpleSpanProcessor(exporter))
    return provider.get_tracer("test", "1.0")


def parent(*, sampled: bool, trace_id: int = 7) -> Context:
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else 0)
    return trace.set_span_in_context(NonRecordingSpan(SpanContext(trace_id, 5, True, flags)))


def record(tracer) -> None:
    """The same calls for any tracer."""
    linked = SpanContext(9, 9, True, TraceFlags(1))
    with tracer.start_as_current_span(
        "outer", context=parent(sampled=True), kind=SpanKind.SERVER, links=[Link(linked)],
        attributes={"a": 1, "b": "text", "c": [1, 2], "d": True, "e": 0.5},
    ) as span:  # fmt: skip
        span.update_name("renamed")
        span.set_attribute("f", "late")
        span.set_attributes({"a": 2})
        span.add_event("happened", {"x": 1})
        span.set_status(Status(StatusCode.ERROR, "why"))
        with tracer.start_as_current_span("inner"):
            pass


def plain(span) -> dict:
    """Without ids and times of its own."""
    (resource,) = encode_spans([span]).resource_spans
    (scope,) = resource.scope_spans
    (encoded,) = scope.spans
    for field in ("span_id", "start_time_unix_nano", "end_time_unix_nano"):
        encoded.ClearField(field)
    for happened in encoded.events:
        happened.ClearField("time_unix_nano")
    attributes = sorted(encoded.attributes, key=lambda pair: pair.key)
    encoded.ClearField("attributes")
    encoded.attributes.extend(attributes)
    return {"span": encoded, "resource": resource.resource, "scope": scope.scope.name}


def test_spans_are_exported_as_the_sdks_own(tracer, exporter):
    """Name, kind, parent, links, attributes, events, status, resource, scope."""
    sdk_exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=RESOURCE)
    provider.add_span_processor(SimpleSpanProcessor(sdk_exporter))
    record(tracer)
    record(provider.get_tracer("test", "1.0"))
    (_, outer), (_, expected) = exporter.get_finished_spans(), sdk_exporter.get_finished_spans()
    assert plain(outer) == plain(expected)


def test_child_is_below_the_current_span(tracer, exporter):
    """One trace; afterwards no span is current."""
    record(tracer)
    inner, outer = exporter.get_finished_spans()
    assert inner.parent.span_id == outer.context.span_id
    assert {inner.context.trace_id, outer.context.trace_id} == {7}
    assert outer.parent.span_id == 5
    assert not trace.get_current_span().get_span_context().is_valid
    assert outer.start_time <= inner.start_time <= inner.end_time <= outer.end_time


@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
def test_sampling_decides_as_the_sdk_does(exporter, ratio):
    """By the trace id, or as the parent did."""
    provider = LightTracerProvider(RESOURCE, ratio=ratio, processor=SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    sampler = ParentBased(TraceIdRatioBased(ratio))
    for _ in range(200):
        span = tracer.start_span("a", Context())
        found = span.get_span_context()
        decided = sampler.should_sample(Context(), found.trace_id, "a").decision
        assert span.is_recording() == found.trace_flags.sampled == decided.is_sampled()
    for sampled in (True, False):
        span = tracer.start_span("a", parent(sampled=sampled))
        assert span.is_recording() is sampled
        assert span.get_span_context().trace_id == 7


def test_without_a_processor_ids_are_still_passed_on():
    """Another process may record the trace, and logs name it."""
    span = LightTracerProvider(RESOURCE).get_tracer("test").start_span("a", Context())
    assert span.get_span_context().is_valid
    assert span.get_span_context().trace_flags.sampled
    assert not span.is_recording()


def test_exception_ends_the_span_as_an_error_without_its_text(tracer, exporter):
    """The text may repeat what a caller sent."""
    with pytest.raises(ValueError), tracer.start_as_current_span("a"):
        raise ValueError("my secret question")
    (span,) = exporter.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert "secret" not in repr((span.status.description, span.events[0].attributes))


def test_ended_span_does_not_change(tracer, exporter):
    """Nor is it exported twice."""
    span = tracer.start_span("a", Context())
    span.end()
    span.set_attribute("x", 1)
    span.update_name("b")
    span.set_status(StatusCode.ERROR)
    span.add_event("late")
    span.add_link(SpanContext(9, 9, True))
    span.end()
    (found,) = exporter.get_finished_spans()
    assert (found.name, found.attributes, found.events, tuple(found.links)) == ("a", {}, [], ())
    assert found.status.is_unset
    assert not span.is_recording()


def test_ok_is_final(tracer):
    """As in the SDK."""
    span = tracer.start_span("a", Context())
    span.set_status(StatusCode.OK)
    span.set_status(StatusCode.ERROR, "no")
    assert span.status.is_ok

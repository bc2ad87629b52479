"""The tracer behind OpenTelemetry's API: what the SDK's records for the same calls."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

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

from searchbus_runtime import build_tree, read_spans
from searchbus_runtime.spans import LightTracerProvider, TraceFile
from searchbus_runtime.traces import is_being_written
from searchbus_testing import eventually

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


PROGRAM = """
import sys
from pathlib import Path
from opentelemetry.sdk.resources import Resource
from searchbus_runtime.spans import LightTracerProvider
from searchbus_runtime.spans import TraceFile
file = TraceFile(Path(sys.argv[1]), service=sys.argv[2], max_bytes=10**7)
provider = LightTracerProvider(Resource({}), processor=file)
tracer = provider.get_tracer("t")
for i in range(300):
    with tracer.start_as_current_span(f"span {i}", attributes={"text": "x" * 500}):
        pass
    if i % 20 == 0:
        file.force_flush()
file.shutdown()
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "traces.jsonl"


def provider_for(path: Path, **options: int) -> LightTracerProvider:
    file = TraceFile(path, service="here", **{"max_bytes": 10**7, **options})
    return LightTracerProvider(Resource({}), processor=file)


def test_spans_are_read_back_as_a_tree(path):
    """Parents, children, errors and attributes survive."""
    provider = provider_for(path)
    tracer = provider.get_tracer("t")
    with tracer.start_as_current_span("outer"), tracer.start_as_current_span("inner") as inner:
        inner.set_attribute("n", 5)
        inner.set_status(StatusCode.ERROR, "not_found")
    provider.shutdown()
    (root,) = build_tree(read_spans(path))
    assert (root.span.name, root.span.service, root.span.kind) == ("outer", "here", "internal")
    assert [child.span.name for child in root.children] == ["inner"]
    assert root.children[0].span.error == "not_found"
    assert root.children[0].span.attributes == {"n": 5}
    assert root.span.duration_ms >= root.children[0].span.duration_ms


def test_spans_are_written_soon(path):
    """Without a flush, so that a command finds a call that has just ended."""
    provider = provider_for(path)
    with provider.get_tracer("t").start_as_current_span("one"):
        pass
    eventually(lambda: path.exists() and [span.name for span in read_spans(path)] == ["one"])
    provider.shutdown()


def test_a_disk_that_takes_a_part_of_the_lines_keeps_none_of_them(path, monkeypatch, caplog):
    """The file stays whole for the lines that come later."""
    provider = provider_for(path)
    tracer = provider.get_tracer("t")
    tracer.start_span("before").end()
    provider.processor.force_flush()
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:10]))
        tracer.start_span("lost").end()
        provider.processor.force_flush()
    tracer.start_span("after").end()
    provider.shutdown()
    assert [span.name for span in read_spans(path)] == ["before", "after"]
    assert "spans cannot be written" in caplog.text


def test_reader_sees_that_a_process_writes(path, monkeypatch):
    """`searchbus trace --last` waits for it."""
    provider = provider_for(path)
    assert not is_being_written(path)
    write, seen = os.write, []

    def watched(descriptor: int, data: bytes) -> int:
        seen.append(is_being_written(path))
        return write(descriptor, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", watched)
        provider.get_tracer("t").start_span("one").end()
        provider.shutdown()
    assert seen == [True]
    assert not is_being_written(path)


def test_several_processes_share_the_file(path):
    """No line is torn and none is lost."""
    running = [subprocess.Popen([sys.executable, "-c", PROGRAM, path, f"p{i}"]) for i in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    lines = path.read_text().splitlines()
    assert len(lines) == 900
    assert {json.loads(line)["service"] for line in lines} == {"p0", "p1", "p2"}


def test_file_is_bounded(path):
    """A full file becomes the one older file; together they keep to twice the limit."""
    provider = provider_for(path, max_bytes=20_000)
    for number in range(500):
        with provider.get_tracer("t").start_as_current_span(f"span {number}"):
            pass
        provider.processor.force_flush()
    sizes = [p.stat().st_size for p in path.parent.glob("traces.jsonl*")]
    assert len(sizes) == 2
    assert max(sizes) < 22_000
    assert [span.name for span in read_spans(path)][-1] == "span 499"


def test_torn_and_foreign_lines_are_left_out(path):
    """A file that a crash cut is still read."""
    provider = provider_for(path)
    with provider.get_tracer("t").start_as_current_span("whole"):
        pass
    provider.shutdown()
    with path.open("a") as file:
        file.write('{"trace_id": "x"}\n{"torn')
    assert [span.name for span in read_spans(path)] == ["whole"]


def test_span_that_has_no_line_harms_no_other(path):
    """Half a surrogate pair has no UTF-8."""
    provider = provider_for(path)
    for name in ("first", "\ud800", "last"):
        with provider.get_tracer("t").start_as_current_span(name):
            pass
    provider.shutdown()
    assert [span.name for span in read_spans(path)] == ["first", "last"]


def test_file_that_cannot_be_written_is_logged_once(path, caplog):
    """Not once for each batch; later spans are written again."""
    provider = provider_for(path)
    path.mkdir()
    for name in ("lost", "lost too"):
        with provider.get_tracer("t").start_as_current_span(name):
            pass
        provider.processor.force_flush()
    path.rmdir()
    with provider.get_tracer("t").start_as_current_span("kept"):
        pass
    provider.shutdown()
    (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert str(path) in record.getMessage()
    assert [span.name for span in read_spans(path)] == ["kept"]

"""The local trace file: bounded, shared by processes, read back as trees."""

from __future__ import annotations

import json
import subprocess
import sys

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from searchbus_runtime import build_tree, read_spans
from searchbus_runtime.tracefile import TraceFileExporter

PROGRAM = """
import sys
from pathlib import Path
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from searchbus_runtime.tracefile import TraceFileExporter
provider = TracerProvider(resource=Resource.create({"service.name": sys.argv[2]}))
provider.add_span_processor(SimpleSpanProcessor(TraceFileExporter(Path(sys.argv[1]), max_bytes=10**7)))
tracer = provider.get_tracer("t")
for i in range(300):
    with tracer.start_as_current_span(f"span {i}", attributes={"text": "x" * 500}):
        pass
"""


def provider_for(path, max_bytes=10**7):
    provider = TracerProvider(resource=Resource.create({"service.name": "here"}))
    provider.add_span_processor(SimpleSpanProcessor(TraceFileExporter(path, max_bytes=max_bytes)))
    return provider


def test_spans_are_read_back_as_a_tree(tmp_path):
    """Parents, children, errors and attributes survive."""
    path = tmp_path / "traces.jsonl"
    tracer = provider_for(path).get_tracer("t")
    with tracer.start_as_current_span("outer"), tracer.start_as_current_span("inner") as inner:
        inner.set_attribute("n", 5)
        inner.set_status(__import__("opentelemetry.trace").trace.StatusCode.ERROR, "not_found")
    (root,) = build_tree(read_spans(path))
    assert (root.span.name, root.span.service) == ("outer", "here")
    assert [child.span.name for child in root.children] == ["inner"]
    assert root.children[0].span.error == "not_found"
    assert root.children[0].span.attributes == {"n": 5}
    assert root.span.duration_ms >= root.children[0].span.duration_ms


def test_several_processes_share_the_file(tmp_path):
    """No line is torn and none is lost."""
    path = tmp_path / "traces.jsonl"
    running = [subprocess.Popen([sys.executable, "-c", PROGRAM, path, f"p{i}"]) for i in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    lines = path.read_text().splitlines()
    assert len(lines) == 900
    assert {json.loads(line)["service"] for line in lines} == {"p0", "p1", "p2"}


def test_file_is_bounded(tmp_path):
    """A full file becomes the one older file; together they keep to twice the limit."""
    path = tmp_path / "traces.jsonl"
    tracer = provider_for(path, max_bytes=20_000).get_tracer("t")
    for number in range(500):
        with tracer.start_as_current_span(f"span {number}"):
            pass
    sizes = [p.stat().st_size for p in tmp_path.glob("traces.jsonl*")]
    assert len(sizes) == 2
    assert max(sizes) < 22_000
    assert [span.name for span in read_spans(path)][-1] == "span 499"


def test_torn_and_foreign_lines_are_left_out(tmp_path):
    """A file that a crash cut is still read."""
    path = tmp_path / "traces.jsonl"
    tracer = provider_for(path).get_tracer("t")
    with tracer.start_as_current_span("whole"):
        pass
    with path.open("a") as file:
        file.write('{"trace_id": "x"}\n{"torn')
    assert [span.name for span in read_spans(path)] == ["whole"]

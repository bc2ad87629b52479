"""The local trace file: bounded, shared by processes, read back as trees."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import StatusCode

from searchbus_runtime import build_tree, read_spans
from searchbus_runtime.spans import LightTracerProvider
from searchbus_runtime.tracefile import TraceFile
from searchbus_testing import eventually

PROGRAM = """
import sys
from pathlib import Path
from opentelemetry.sdk.resources import Resource
from searchbus_runtime.spans import LightTracerProvider
from searchbus_runtime.tracefile import TraceFile
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

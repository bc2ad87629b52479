"""Reading the local trace file."""

from __future__ import annotations

import json

from searchbus_runtime import SpanRecord, build_tree, read_spans


def line(name: str) -> str:
    return json.dumps({
        "trace_id": "t", "span_id": name, "parent_id": None, "name": name, "kind": "server",
        "service": "s", "start_ns": 1_000_000, "end_ns": 3_500_000,
    }) + "\n"  # fmt: skip


def test_older_file_is_read_first(tmp_path):
    """A full file becomes `<name>.1`."""
    path = tmp_path / "traces.jsonl"
    assert list(read_spans(path)) == []
    path.write_text(line("new"))
    (tmp_path / "traces.jsonl.1").write_text(line("old"))
    spans = list(read_spans(path))
    assert [span.name for span in spans] == ["old", "new"]
    assert spans[0].duration_ms == 2.5


def test_span_of_an_unknown_parent_is_a_root():
    """A client's own span is not in our file."""
    spans = [
        SpanRecord("t", "b", "a", "second", "server", "s", 20, 30),
        SpanRecord("t", "c", "b", "inside", "client", "s", 21, 29),
        SpanRecord("t", "d", "zz", "first", "server", "s", 10, 12),
    ]
    assert [(n.span.name, len(n.children)) for n in build_tree(spans)] == [
        ("first", 0),
        ("second", 1),
    ]

"""JSON Lines: one document a line."""

from __future__ import annotations

from searchbus_ingest.sources.jsonl import read_jsonl


def test_bad_lines_are_reported_with_number_and_reason(tmp_path):
    """And skipped; the good ones are read."""
    path = tmp_path / "d.jsonl"
    path.write_bytes(
        b'{"id": "a", "text": "Whales.", "title": "A", "n": 1, "tags": ["x"], "odd key": 1}\n'
        b"{\n"
        b"\xff\xfe\n"
        b"[1]\n"
        b'{"text": "no id"}\n'
        b'{"id": 7}\n'
        b'{"id": "e", "text": "  "}\n'
        b"\n" + b"[" * 100_000 + b"\n"
        b'{"_id": 8, "content": "Dolphins.", "source_url": "https://example.org"}\n'
    )
    items = list(read_jsonl(path, "c"))
    problems = {item.origin: item.problem for item in items if item.problem}
    assert problems.keys() == {f"d.jsonl:{n}" for n in (2, 3, 4, 5, 6, 7, 9)}
    assert "not valid JSON" in problems["d.jsonl:2"]
    assert "UTF-8" in problems["d.jsonl:3"]
    assert '"id" is missing' in problems["d.jsonl:5"]
    assert '"text" is missing' in problems["d.jsonl:6"]
    first, last = (item.document for item in items if item.document)
    assert (first.title, first.metadata) == ("A", {"n": 1})
    assert (last.title, last.url) == ("8", "https://example.org")

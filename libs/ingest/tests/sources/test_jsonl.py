"""JSON Lines: one document a line."""

from __future__ import annotations

import os

import pytest

from searchbus_ingest.sources import jsonl
from searchbus_ingest.sources.item import Reason
from searchbus_ingest.sources.jsonl import count_lines, read_jsonl


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
        b'{"id": "f", "text": "\xc3\x9cber Wale."}\n'
        b"\n" + b"[" * 100_000 + b"\n"
        b'{"_id": 8, "content": "Dolphins.", "source_url": "https://example.org"}\n'
    )
    items = list(read_jsonl(path, "c"))
    problems = {item.origin: item.problem for item in items if item.problem}
    assert problems.keys() == {f"d.jsonl:{n}" for n in (2, 3, 4, 5, 6, 7, 10)}
    assert "not valid JSON" in problems["d.jsonl:2"]
    assert "UTF-8" in problems["d.jsonl:3"]
    assert '"id" is missing' in problems["d.jsonl:5"]
    assert '"text" is missing' in problems["d.jsonl:6"]
    first, _, last = (item.document for item in items if item.document)
    assert (first.title, first.metadata) == ("A", {"n": 1})
    assert (last.title, last.url) == ("8", "https://example.org")


ROWS = "\n".join(
    f'{{"id": {number}, "text": "{text}"}}'
    for number, text in enumerate(("Whales sing.", "", "{} — {}", "Größe, Ende\u2028."))
)


@pytest.mark.parametrize("charset", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_lines_may_have_any_unicode_charset(tmp_path, charset):
    """With or without a byte order mark; a line separator in a text ends no line."""
    path = tmp_path / "d.jsonl"
    path.write_bytes(ROWS.encode(charset))
    items = list(read_jsonl(path, "c"))
    assert [i.document.text for i in items if i.document] == [
        "Whales sing.",
        "{} — {}",
        "Größe, Ende\u2028.",
    ]
    assert [i.problem for i in items if i.problem] == ["it contains no text"]
    assert count_lines(path) == 4


@pytest.mark.parametrize(
    ("charset", "text"),
    [("latin-1", "Café über Málaga."), ("cp1252", "It’s “big”: über."), ("cp1251", "Песни китов.")],
)
def test_charset_of_lines_is_detected(tmp_path, charset, text):
    """From all lines that are not ASCII, however late they come."""
    path = tmp_path / "d.jsonl"
    lines = [
        f'{{"id": {n}, "text": "{text if n > 3000 else "Whales sing."}"}}' for n in range(3010)
    ]
    path.write_bytes("\n".join(lines).encode(charset))
    *_, last = read_jsonl(path, "c")
    assert last.document.text == text


def test_too_long_line_is_passed_over(tmp_path, monkeypatch):
    """Without reading all of it into memory; the next one is read."""
    monkeypatch.setattr(jsonl, "MAX_LINE_CHARS", 40)
    path = tmp_path / "d.jsonl"
    path.write_text(f'{{"id": 1, "text": "{"x" * 200}"}}\n{{"id": 2, "text": "Whales."}}\n')
    first, second = read_jsonl(path, "c")
    assert (first.reason, first.origin) == (Reason.TOO_LARGE, "d.jsonl:1")
    assert second.document.text == "Whales."


@pytest.mark.timeout(60)
def test_fifo_is_not_waited_for(tmp_path):
    """It is no file of lines."""
    os.mkfifo(tmp_path / "d.jsonl")
    (item,) = read_jsonl(tmp_path / "d.jsonl", "c")
    assert item.reason is Reason.NOT_REGULAR
    assert count_lines(tmp_path / "d.jsonl") is None

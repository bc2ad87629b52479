"""JSON Lines, JSON files and notebooks."""

from __future__ import annotations

import json
import os

import pytest

from searchbus_ingest.sources import jsonl
from searchbus_ingest.sources.item import Reason, SkipError
from searchbus_ingest.sources.jsonl import (
    MAX_OUTPUT_CHARS,
    count_lines,
    json_to_text,
    notebook_to_text,
    parse_json,
    read_jsonl,
)

from ..conftest import read_path


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


def test_records_of_an_array_are_documents(tmp_path):
    """A faulty one is named by its number."""
    rows = [{"id": 1, "text": "They sing.", "year": 2020}, {"id": 2}, {"_id": "3", "content": "x"}]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    first, second, third = read_path(tmp_path / "a.json", "c")
    assert first.document.metadata == {"year": 2020}
    assert (second.origin, second.reason) == ("a.json:2", Reason.BAD_LINE)
    assert third.document.text == "x"


def test_other_json_is_one_document_with_paths(tmp_path):
    """In the file's order."""
    (tmp_path / "a.json").write_text('{"name": "Ann", "places": [{"city": "Oslo", "x": null}, 3]}')
    (item,) = read_path(tmp_path / "a.json", "c")
    assert item.document.text.split("\n") == [
        "- name: Ann",
        "- places.0.city: Oslo",
        "- places.1: 3",
    ]


def test_deep_large_and_broken_json_is_skipped(tmp_path, monkeypatch):
    """Each with its reason, and the next file is read."""
    (tmp_path / "a.json").write_text("[" * 200_000)
    (tmp_path / "b.json").write_text("{")
    (tmp_path / "c.json").write_text("9" * 10_000)
    (tmp_path / "d.json").write_text('"They sing."')
    found = list(read_path(tmp_path, "c"))
    assert [item.reason for item in found[:3]] == [
        Reason.TOO_COMPLEX, Reason.UNREADABLE, Reason.UNREADABLE,
    ]  # fmt: skip
    assert found[3].document.text == "They sing."
    monkeypatch.setattr(jsonl, "MAX_VALUES", 3)
    with pytest.raises(SkipError, match="more than 3 values"):
        json_to_text([1, 2, 3])


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_json_of_too_many_values_is_not_parsed(tmp_path, monkeypatch, name):
    """A list of millions of empty lists takes twenty times its size."""
    monkeypatch.setattr(jsonl, "MAX_MARKS", 4)
    (tmp_path / name).write_text("[[],[],[]]\n")
    (item,) = read_path(tmp_path, "c")
    assert item.reason is Reason.TOO_LARGE
    assert "more than 4 brackets and commas" in item.problem


def test_deep_json_costs_no_more_than_its_size():
    """A path is cut, so that it does not repeat itself in every line."""
    deep: object = "x"
    for _ in range(500):
        deep = {"a" * 1000: deep}
    assert len(json_to_text(deep)) < 300


def test_json_with_its_own_limit_of_nesting_is_complex():
    """Not an error of the program."""
    with pytest.raises(SkipError) as caught:
        parse_json('{"a":' * 100_000)
    assert caught.value.reason is Reason.TOO_COMPLEX


def cell(kind: str, source: object, *outputs: object) -> dict:
    return {"cell_type": kind, "source": source, "outputs": list(outputs)}


def test_notebook_has_its_text_code_and_outputs():
    """Pictures are left out."""
    picture = {"data": {"image/png": "AAAA", "text/plain": ["<Figure>"]}}
    cells = [
        cell("markdown", ["# Whales\n", "They sing."]),
        cell("code", "1 + 1", {"text": "2"}, picture),
    ]
    text = notebook_to_text(json.dumps({"cells": cells}))
    assert text == "# Whales\nThey sing.\n\n```\n1 + 1\n```\n\n```\n2<Figure>\n```"


def test_huge_output_of_a_notebook_is_cut():
    """The next cell is there."""
    cells = [cell("code", "loop()", *[{"text": "x" * 1000}] * 5000), cell("markdown", "after")]
    text = notebook_to_text(json.dumps({"cells": cells}))
    assert len(text) < MAX_OUTPUT_CHARS + 100
    assert text.endswith("…\n```\n\nafter")


@pytest.mark.parametrize("book", [[], {}, {"cells": 3}, {"worksheets": [3]}])
def test_what_is_no_notebook_is_skipped(book):
    """And odd cells are passed over."""
    with pytest.raises(SkipError, match="no cells"):
        notebook_to_text(json.dumps(book))
    assert notebook_to_text('{"cells": [3, {"source": [3], "outputs": [3, {"data": 3}]}]}') == ""


def test_notebook_of_too_many_cells_is_skipped(monkeypatch):
    """With the limit."""
    monkeypatch.setattr(jsonl, "MAX_CELLS", 1)
    with pytest.raises(SkipError, match="more than 1 cells"):
        notebook_to_text(json.dumps({"cells": [{}, {}]}))

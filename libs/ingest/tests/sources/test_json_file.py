"""JSON files: records, and documents of any shape."""

from __future__ import annotations

import json

import pytest

from searchbus_ingest.sources import json_file
from searchbus_ingest.sources.files import read_path
from searchbus_ingest.sources.item import Reason, SkipError
from searchbus_ingest.sources.json_file import json_to_text, parse_json


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
    monkeypatch.setattr(json_file, "MAX_VALUES", 3)
    with pytest.raises(SkipError, match="more than 3 values"):
        json_to_text([1, 2, 3])


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

"""JSON files and notebooks."""

from __future__ import annotations

import json

import pytest

from searchbus_ingest.sources import json_file, notebook
from searchbus_ingest.sources.files import read_path
from searchbus_ingest.sources.item import Reason, SkipError
from searchbus_ingest.sources.json_file import json_to_text, parse_json
from searchbus_ingest.sources.notebook import MAX_OUTPUT_CHARS, notebook_to_text


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
    monkeypatch.setattr(notebook, "MAX_CELLS", 1)
    with pytest.raises(SkipError, match="more than 1 cells"):
        notebook_to_text(json.dumps({"cells": [{}, {}]}))


def test_json_with_its_own_limit_of_nesting_is_complex():
    """Not an error of the program."""
    with pytest.raises(SkipError) as caught:
        parse_json('{"a":' * 100_000)
    assert caught.value.reason is Reason.TOO_COMPLEX

"""Notebooks to text."""

from __future__ import annotations

import json

import pytest

from searchbus_ingest.sources import notebook
from searchbus_ingest.sources.item import SkipError
from searchbus_ingest.sources.notebook import MAX_OUTPUT_CHARS, notebook_to_text


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

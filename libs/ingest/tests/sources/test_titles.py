"""Titles that name nothing."""

from __future__ import annotations

import pytest

from searchbus_ingest.sources.titles import usable_title


@pytest.mark.parametrize(
    "title",
    [None, "", " ", "Microsoft Word - x.doc", "Microsoft PowerPoint - Talk.ppt", "untitled", "Untitled-1",
     "(anonymous)", "Untitled Document", "Document1", "20240131", "12.3", "report_final.docx", "thesis.dvi",
     "PowerPoint Presentation", "No Title", "Seite\ufffd"],
)  # fmt: skip
def test_title_of_a_program_or_placeholder_is_not_used(title):
    """The file's name says more."""
    assert usable_title(title) is None


@pytest.mark.parametrize(
    ("title", "expected"),
    [(" Whales\n sing ", "Whales sing"), ("1984", None), ("Q3 2024", "Q3 2024"), ("鯨の歌", "鯨の歌"),
     ("Index of Whales", "Index of Whales"), ("Untitled songs of whales", "Untitled songs of whales"),
     ("Using Node.js", "Using Node.js")],
)  # fmt: skip
def test_other_titles_stay(title, expected):
    """On one line."""
    assert usable_title(title) == expected

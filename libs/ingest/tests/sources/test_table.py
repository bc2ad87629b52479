"""CSV to text."""

from __future__ import annotations

import pytest

from searchbus_ingest.sources import table
from searchbus_ingest.sources.item import Reason, SkipError
from searchbus_ingest.sources.table import csv_to_text

LINES = "- name: Ann, B.; city: Oslo\n- name: José; city: Málaga"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_rows_become_lines_with_the_names_of_their_columns(delimiter):
    """Whatever the delimiter is; quotes and line ends in values are kept apart from it."""
    rows = [("name", "city"), ('"Ann,\n B."', "Oslo"), ("", ""), ("José", "Málaga")]
    assert csv_to_text("\r\n".join(map(delimiter.join, rows))) == LINES


def test_excels_first_line_names_the_delimiter():
    """It is no row."""
    assert csv_to_text("sep=;\nname;city\nAnn, B.;Oslo\nJosé;Málaga\n") == LINES


def test_values_without_a_column_are_kept():
    """By their place; empty ones are left out; doubled quotes are one."""
    assert csv_to_text('a,b\n1,,3\n"say ""x""",2\n') == '- a: 1; column 3: 3\n- a: say "x"; b: 2'
    assert csv_to_text("name\nAnn\n") == "- name: Ann"


@pytest.mark.parametrize("text", ["", "a,b\n", "a,b\n,\n"])
def test_table_without_rows_is_skipped(text):
    """Its column names alone say nothing."""
    with pytest.raises(SkipError, match="no rows") as caught:
        csv_to_text(text)
    assert caught.value.reason is Reason.EMPTY


def test_limits_are_named(monkeypatch):
    """With what to do."""
    with pytest.raises(SkipError, match=r"line 2: field larger than field limit"):
        csv_to_text(f'a\n"{"x" * 200_000}"\n')
    monkeypatch.setattr(table, "MAX_ROWS", 1)
    with pytest.raises(SkipError, match="more than 1 rows, the limit of a table; split the file"):
        csv_to_text("a\n1\n2\n")


def test_long_names_of_columns_are_counted_with_every_row(monkeypatch):
    """A file of some kilobytes would become gigabytes: no row is made beyond the limit."""
    monkeypatch.setattr(table, "MAX_DOCUMENT_BYTES", 10_500)
    made = []
    line = table.row_line
    monkeypatch.setattr(table, "row_line", lambda cells: made.append(1) or line(cells))
    with pytest.raises(SkipError, match="of text, the limit of a document; split it") as caught:
        csv_to_text("n" * 1000 + "\n" + "1\n" * 5000)
    assert caught.value.reason is Reason.TOO_LARGE
    assert len(made) == 11

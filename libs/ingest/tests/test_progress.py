"""What an ingest shows while it runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from searchbus_ingest import progress
from searchbus_ingest.progress import ProgressReport
from searchbus_ingest.sending import Summary
from searchbus_ingest.sources.item import Item
from searchbus_testing import eventually


def test_lines_are_written_while_nothing_happens(capsys, monkeypatch):
    """The first passages may take long. Standard output stays free."""
    monkeypatch.setattr(progress, "_LINE_EVERY_S", 0.01)
    report = ProgressReport()
    report.files_total = 40
    with report:
        for name in "abc":
            report.file_done(name)
        report.show(Summary(stored=3, unchanged=1, chunks=9))
        shown = eventually(lambda: capsys.readouterr().err, timeout_s=60)
    assert "3 of 40 files, 4 documents, 9 passages, " in shown
    assert shown.endswith("passages/s\n")
    assert capsys.readouterr().out == ""


def test_first_line_comes_with_the_first_passages(capsys, monkeypatch):
    """Whoever runs it sees that it works; the next line comes as usual."""
    monkeypatch.setattr(progress, "_LINE_EVERY_S", 1000.0)
    report = ProgressReport()
    with report:
        report.show(Summary(stored=1, chunks=3))
        shown = eventually(lambda: capsys.readouterr().err, timeout_s=60)
        report.show(Summary(stored=2, chunks=6))
    assert "1 documents, 3 passages" in shown
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("files", "documents", "text"),
    [(7, None, "1 of 7 files, 2 documents, 5 passages, "), (None, 9, "2 of 9 documents, 5 "),
     (None, None, "2 documents, 5 passages, ")],
)  # fmt: skip
def test_terminal_shows_a_bar_with_counts(monkeypatch, files, documents, text):
    """Of files, or of the lines of one file."""
    screen = io.StringIO()
    monkeypatch.setattr(progress, "err", Console(file=screen, force_terminal=True, width=200))
    report = ProgressReport()
    report.files_total, report.documents_total = files, documents
    with report:
        report.file_done("a")
        report.show(Summary(stored=2, chunks=5))
    assert text in screen.getvalue()


def test_file_is_done_when_its_document_is_stored():
    """Reading is much faster than embedding."""
    report = ProgressReport()
    report.files_total = 3
    for name in "abc":
        report.item_read()
        report.file_done(name)
    assert str(report).startswith("0 of 3 files")
    report.show(Summary(stored=1, skipped=[Item("b", problem="binary")]))
    assert str(report).startswith("2 of 3 files")


def test_what_is_read_is_shown_before_the_first_batch_is_stored():
    """An ingest of long documents is seen to work."""
    report = ProgressReport()
    report.files_total = 3
    report.item_read()
    report.item_read()
    assert str(report).startswith("0 of 3 files, 0 documents, 2 more read, 0 passages")
    report.show(Summary(stored=2))
    assert "more read" not in str(report)

"""What an ingest shows while it runs."""

from __future__ import annotations

from searchbus_ingest import progress
from searchbus_ingest.progress import ProgressReport
from searchbus_ingest.sending import Summary


def test_lines_show_count_and_rate_where_there_is_no_terminal(capsys, monkeypatch):
    """With the time left where the total is known; `quiet` shows nothing."""
    monkeypatch.setattr(progress, "_LINE_EVERY_S", -1.0)
    summary = Summary(stored=3, unchanged=1, chunks=9, skipped=["x: bad"])
    for total, quiet in ((10, False), (None, False), (10, True)):
        with ProgressReport(total, quiet=quiet) as report:
            report.show(summary)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("5 of 10, about ")
    assert "s left; " in first
    assert second.startswith("5; ")
    assert second.endswith("passages/s")

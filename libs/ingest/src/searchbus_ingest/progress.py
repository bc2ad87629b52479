"""The progress of an ingest: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from searchbus_cli.output import err

from .sending import Summary

__all__ = ["ProgressReport"]

_LINE_EVERY_S = 5.0


class ProgressReport:
    """Shows how many documents are done. Use as a context manager.

    Args:
        total: number of documents; `None` where it is unknown.
        quiet: show nothing.
    """

    def __init__(self, total: int | None, *, quiet: bool) -> None:
        self._total = total
        self._quiet = quiet
        self._started_s = self._last_line_s = time.monotonic()
        self._bar: Progress | None = None
        if err.is_terminal and not quiet:
            self._bar = Progress(
                SpinnerColumn(), TextColumn("{task.description}"), BarColumn(),
                MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeElapsedColumn(),
                TimeRemainingColumn(), console=err,
            )  # fmt: skip
            self._task = self._bar.add_task("documents", total=total, rate="")

    def __enter__(self) -> ProgressReport:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, summary: Summary) -> None:
        """Show the counts so far."""
        now_s = time.monotonic()
        done = summary.documents + len(summary.skipped)
        sent = summary.stored + summary.replaced
        elapsed_s = max(0.001, now_s - self._started_s)
        rate = f"{sent / elapsed_s:.1f} documents/s, {summary.chunks / elapsed_s:.0f} passages/s"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, rate=rate)
        elif not self._quiet and now_s - self._last_line_s > _LINE_EVERY_S:
            self._last_line_s = now_s
            of = ""
            if self._total:
                left_s = elapsed_s / max(1, done) * (self._total - done)
                of = f" of {self._total}, about {left_s:.0f} s left"
            sys.stderr.write(f"{done}{of}; {rate}\n")

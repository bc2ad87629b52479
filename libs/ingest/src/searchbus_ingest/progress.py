"""How far a command is, on standard error: a bar on a terminal, elsewhere lines."""

from __future__ import annotations

import sys
import threading
import time
from typing import Self

from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from searchbus_cli.output import err

from .sending import Summary

_LINE_EVERY_S = 5.0
_SHORT_S = 0.2


class _Progress:
    """A bar on a terminal, else a line every few seconds; `str` of it is the line."""

    def __init__(self) -> None:
        self._bar = Progress(
            SpinnerColumn(), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn(),
            TimeRemainingColumn(), console=err, disable=not err.is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task("", start=False, total=None)
        self._ended, self._first = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._write_lines, daemon=True)

    def __enter__(self) -> Self:
        self._bar.start_task(self._task)
        self._bar.start()
        if self._bar.disable:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._first.set()
        self._bar.stop()
        if self._bar.disable:
            self._thread.join()

    def _write_lines(self) -> None:
        self._first.wait(_LINE_EVERY_S)
        # What ends at once needs no line.
        pause_s = _SHORT_S
        while not self._ended.wait(pause_s):
            pause_s = _LINE_EVERY_S
            sys.stderr.write(f"{self}\n")
            sys.stderr.flush()


class ProgressReport(_Progress):
    """The progress of an ingest: files, documents and passages. Use as a context manager.

    Set `files_total`, or `documents_total` for a source of lines, where they are known. A thread
    writes the lines, since the first passages may take longer than the time between two lines. The
    first line comes with the first passages.
    """

    files_total: int | None = None
    documents_total: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self._files = self._items = 0
        self._summary = Summary()
        self._started_s = time.monotonic()

    def __enter__(self) -> Self:
        self._started_s = time.monotonic()
        return super().__enter__()

    def file_done(self, name: str) -> None:
        """Count a file that was read to its end or skipped."""
        self._files += 1
        self.show(self._summary)

    def item_read(self) -> None:
        """Count a document, or what was skipped, that a reader yields."""
        self._items += 1
        self.show(self._summary)

    def show(self, summary: Summary) -> None:
        """Show the counts so far."""
        self._summary = summary
        if summary.chunks:
            self._first.set()
        done = self._files_done if self.files_total else self._documents
        total = self.files_total or self.documents_total
        self._bar.update(self._task, total=total, completed=done, description=str(self))

    def __str__(self) -> str:
        """`12 of 40 files, 31 documents, 340 passages, 48 passages/s`."""
        passages = self._summary.chunks
        rate = passages / max(0.001, time.monotonic() - self._started_s)
        files = f"{self._files_done} of {self.files_total} files, " if self.files_total else ""
        of = f" of {self.documents_total}" if self.documents_total else ""
        waits = ", waiting for the retrieval service" if self._summary.waits else ""
        read = f", {self._waiting} more read" if self._waiting else ""
        return (
            f"{files}{self._documents}{of} documents{read}, {passages} passages, "
            f"{rate:.0f} passages/s{waits}"
        )

    @property
    def _waiting(self) -> int:
        """Documents that are read but not stored yet."""
        return max(0, self._items - self._summary.documents - len(self._summary.skipped))

    @property
    def _files_done(self) -> int:
        """Most files have one document each."""
        return max(0, self._files - self._waiting)

    @property
    def _documents(self) -> int:
        skipped = len(self._summary.skipped) if self.documents_total else 0
        return self._summary.documents + skipped


class StepProgress(_Progress):
    """How far a backup or a restore is: `step` names what is done, `advance` counts it.

    Use as a context manager.
    """

    _name, _done, _total = "starting", 0, 0

    def step(self, name: str, total: int) -> None:
        """Begin what has so many parts; 0: unknown."""
        self._name, self._done, self._total = name, 0, total
        self._bar.reset(self._task, total=total or None, description=name)

    def advance(self, count: int = 1) -> None:
        """Count parts that are done."""
        self._done += count
        self._bar.advance(self._task, count)

    def __str__(self) -> str:
        """`collection docs, documents: 400 of 9000`."""
        of = f" of {self._total}" if self._total else ""
        return f"{self._name}: {self._done}{of}"

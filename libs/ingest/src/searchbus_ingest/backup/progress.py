"""How far a backup or a restore is, on standard error: a bar on a terminal, elsewhere lines."""

from __future__ import annotations

import time

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from searchbus_cli.output import err, tell

_LINE_EVERY_S = 5.0


class StepProgress:
    """Use as a context manager; `step` names what is done, `advance` counts it."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._name, self._done, self._total = "", 0, 0
        self._told_s = time.monotonic()

    def __enter__(self) -> StepProgress:
        if err.is_terminal:
            self._bar = Progress(
                BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn(),
                TimeRemainingColumn(), console=err,
            )  # fmt: skip
            self._bar.start()
            self._task = self._bar.add_task("")
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, name: str, total: int) -> None:
        """Begin what has so many parts; 0: unknown."""
        self._name, self._done, self._total = name, 0, total
        if self._bar is not None:
            self._bar.reset(self._task, total=total or None, description=name)

    def advance(self, count: int = 1) -> None:
        """Count parts that are done."""
        self._done += count
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, description=self._name)
        elif time.monotonic() - self._told_s >= _LINE_EVERY_S:
            self._told_s = time.monotonic()
            of = f" of {self._total}" if self._total else ""
            tell(f"{self._name}: {self._done}{of}")

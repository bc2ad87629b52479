"""Periods: the days of which results are asked for, where an API names days and the tools ranges.

period = Period.of(days=10, today=date(2026, 3, 20))
period.time_range          # "m": the shortest range of the tools that covers it
kept, notes = period.keep(rows)
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from msgspec import Struct

from .web_tools import Row

__all__ = ["Period"]

_RANGES = (("d", 1), ("w", 7), ("m", 31), ("y", 366))


class Period(Struct, frozen=True):
    """From one day to another, both included; None is without a bound.

    Args:
        today: in UTC, from which the ranges of the tools count.
    """

    first: date | None
    last: date | None
    today: date

    @classmethod
    def of(
        cls,
        *,
        today: date,
        days: int | None = None,
        first: date | None = None,
        last: date | None = None,
    ) -> Period:
        """The period of the last days, or from one day to another."""
        if days is not None:
            earliest = today - timedelta(days=min(days, (today - date.min).days))
            first = earliest if first is None else max(first, earliest)
        return cls(first, last, today)

    @property
    def bounded(self) -> bool:
        """Whether it leaves out any day."""
        return self.first is not None or self.last is not None

    @property
    def time_range(self) -> str | None:
        """The shortest `timeRange` of the tools that covers it; None where none does."""
        if self.first is None:
            return None
        age_days = (self.today - self.first).days
        return next((letter for letter, days in _RANGES if age_days <= days), None)

    def keep(self, rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
        """The rows of the period, and notes on what was left out.

        Rows without a date stay only where no other row is left, as in searches with `timeRange`.
        """
        if not self.bounded:
            return list(rows), []
        undated = [row for row in rows if row.published_at is None]
        kept = [row for row in rows if self._holds(row)]
        notes = []
        other = len(rows) - len(undated) - len(kept)
        if other:
            notes.append(f"Results of other days were left out: {other}.")
        if kept and undated:
            notes.append(f"Results without a date were left out: {len(undated)}.")
        elif undated:
            notes.append("No result has a date: they may be of other days.")
        return kept or undated, notes

    def _holds(self, row: Row) -> bool:
        if row.published_at is None:
            return False
        day = date.fromisoformat(row.published_at[:10])
        return (self.first is None or day >= self.first) and (self.last is None or day <= self.last)

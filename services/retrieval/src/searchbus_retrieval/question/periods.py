"""Parts of the calendar that a question means."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` to the day before `end`."""

    start: date
    end: date

    @property
    def days(self) -> int:
        """The length in days."""
        return (self.end - self.start).days

    @property
    def is_month(self) -> bool:
        """Whether it is a whole month."""
        return self.start.day == self.end.day == 1 and self.days <= 31

    def holds(self, other: Period) -> bool:
        """Whether the other period is a part of this longer one."""
        return self != other and self.start <= other.start and other.end <= self.end

    def __contains__(self, day: str) -> bool:
        """Whether an ISO date is in the period."""
        return self.start.isoformat() <= day < self.end.isoformat()


@dataclass(frozen=True, slots=True)
class Limit:
    """A date that documents only mention: those that do are from before it, or from after it.

    Attributes:
        day: documents of earlier days are meant, or those of this day and later.
    """

    day: date
    before: bool

    @property
    def last_day(self) -> date:
        """The day before `day`."""
        return self.day - timedelta(days=1)


@dataclass(frozen=True, slots=True)
class NextTo:
    """The documents of the last date before a period, or of the first one after it.

    Attributes:
        steps: 2 is the last but one before, or the second after.
    """

    period: Period
    before: bool
    steps: int = 1


def months(year: int, first: int, last: int) -> Period:
    """From the first day of one month of a year to the last of another, numbered from 1."""
    end = date(year + 1, 1, 1) if last == 12 else date(year, last + 1, 1)
    return Period(date(year, first, 1), end)

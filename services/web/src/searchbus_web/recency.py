"""Dates of results: the order of news, and time ranges, which providers ignore or misread."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from .fusion import Fused
from .providers.base import TIME_WORDS, TimeRange
from .results import Result

__all__ = ["is_older", "newest_first", "of_range"]

_DAYS: dict[TimeRange, int] = {"d": 1, "w": 7, "m": 31, "y": 366}


def of_range(
    results: Sequence[Result], time: TimeRange, now: datetime
) -> tuple[list[Result], list[str]]:
    """The results of a time range, and notes on those that were left out.

    Results without a date stay only where no other result is left.
    """
    if not time or not results:
        return list(results), []
    notes = []
    last = f"the last {TIME_WORDS[time]}"
    undated = [result for result in results if result.published_at is None]
    kept = [r for r in results if r.published_at is not None and not is_older(r, time, now)]
    older = len(results) - len(undated) - len(kept)
    if older:
        verbs = ("is", "was") if older == 1 else ("are", "were")
        notes.append(f"{_counted(older)} {verbs[0]} older than {last} and {verbs[1]} left out.")
    if kept and undated:
        verb = "was" if len(undated) == 1 else "were"
        without = f"{_counted(len(undated))} without a date {verb} left out"
        notes.append(f"{without}: they may be older than {last}.")
    elif undated:
        which = "No other result" if older else "No result"
        notes.append(f"{which} has a date: they may be older than {last}.")
    return kept or undated, notes


def newest_first(pages: Sequence[Fused], limit: int, now: datetime) -> list[Fused]:
    """The best `limit` pages, those with a date before the others; the newest come first.

    Pages of one time, and those without a date, stay in the order of their rank. A date in the
    future is not believed.
    """
    tomorrow = (now + timedelta(days=1)).isoformat()

    def date(page: Fused) -> str:
        given = page.result.published_at or ""
        return given if given <= tomorrow else ""

    chosen = sorted(pages, key=lambda page: not date(page))[:limit]
    return sorted(chosen, key=date, reverse=True)


def is_older(result: Result, time: TimeRange, now: datetime) -> bool:
    """Whether a dated result is older than the range; False for one without a date."""
    if result.published_at is None or not time:
        return False
    then = datetime.fromisoformat(result.published_at)
    aware = then if then.tzinfo else then.replace(tzinfo=UTC)
    # A date stands for its whole day: the page may have been published at the end of it.
    is_date = (then.hour, then.minute, then.second) == (0, 0, 0)
    return aware < now - timedelta(days=_DAYS[time] + is_date)


def _counted(number: int) -> str:
    return "1 result" if number == 1 else f"{number} results"

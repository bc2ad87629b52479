"""Days of which results are asked for."""

from __future__ import annotations

from datetime import date

import pytest

from searchbus_edge.interfaces.compat.periods import Period
from searchbus_edge.interfaces.compat.web_tools import Row

TODAY = date(2026, 3, 20)


@pytest.mark.parametrize(
    ("days", "time_range"),
    [(1, "d"), (2, "w"), (7, "w"), (8, "m"), (31, "m"), (32, "y"), (366, "y"), (367, None),
     (10**12, None)],
)  # fmt: skip
def test_time_range_covers_the_days(days, time_range):
    """The shortest one that fits; the tools have no range longer than a year."""
    assert Period.of(today=TODAY, days=days).time_range == time_range


def test_later_of_two_beginnings_counts():
    """Where a request has days and a first day."""
    period = Period.of(today=TODAY, days=3, first=date(2026, 1, 1))
    assert period.first == date(2026, 3, 17)
    assert Period.of(today=TODAY, last=TODAY).time_range is None
    assert not Period.of(today=TODAY).bounded


def rows(*dates: str | None) -> list[Row]:
    return [Row("t", f"https://{n}.example/", "", day) for n, day in enumerate(dates)]


def kept(period: Period, *dates: str | None) -> tuple[list[str | None], list[str]]:
    found, notes = period.keep(rows(*dates))
    return [row.published_at for row in found], notes


def test_results_of_other_days_are_left_out():
    """Both ends belong to the period; what was left out is counted."""
    period = Period.of(today=TODAY, first=date(2026, 3, 1), last=date(2026, 3, 2))
    dates = ("2026-02-28T23:59:59Z", "2026-03-01", "2026-03-02T23:00:00Z", "2026-03-03", None)
    found, notes = kept(period, *dates)
    assert found == ["2026-03-01", "2026-03-02T23:00:00Z"]
    assert notes == [
        "Results of other days were left out: 2.",
        "Results without a date were left out: 1.",
    ]


def test_undated_results_stay_where_no_other_is_left():
    """With a note that says so."""
    period = Period.of(today=TODAY, days=1)
    assert kept(period, None, None)[0] == [None, None]
    assert kept(period, None)[1] == ["No result has a date: they may be of other days."]


def test_period_without_bounds_leaves_all():
    """And says nothing."""
    assert kept(Period.of(today=TODAY), None, "1999-01-01") == ([None, "1999-01-01"], [])

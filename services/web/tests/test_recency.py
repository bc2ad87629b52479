"""Time ranges, held against the dates of results."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from searchbus_web.recency import is_older, of_range
from searchbus_web.results import Result

NOW = datetime(2026, 3, 20, 12, 0, tzinfo=UTC)


def dated(*dates: str | None) -> list[Result]:
    return [Result(str(date), f"https://a.org/{date}", "", date) for date in dates]


@pytest.mark.parametrize(
    ("time", "inside", "outside"),
    [
        ("d", "2026-03-19T12:00:01Z", "2026-03-19T11:59:59Z"),
        ("d", "2026-03-19", "2026-03-18"),
        ("d", "2026-03-19T00:00:00Z", "2026-03-18T00:00:00Z"),
        ("w", "2026-03-13", "2026-03-12"),
        ("m", "2026-02-17", "2026-02-16"),
        ("y", "2025-03-19", "2025-03-18"),
        ("d", "9999-12-31", "0001-01-01"),
    ],
)
def test_result_older_than_the_range_is_left_out(time, inside, outside):
    """A date without a time, or at midnight, stands for its whole day."""
    kept, notes = of_range(dated(outside, inside), time, NOW)
    assert [result.published_at for result in kept] == [inside]
    assert [is_older(result, time, NOW) for result in dated(outside, inside)] == [True, False]
    (note,) = notes
    assert note.startswith("1 result is older than the last ")


def test_undated_results_are_left_out_beside_dated_ones():
    """A note says how many."""
    kept, notes = of_range(dated(None, "2026-03-20", None, "2025-01-01"), "w", NOW)
    assert [result.published_at for result in kept] == ["2026-03-20"]
    assert notes == [
        "1 result is older than the last week and was left out.",
        "2 results without a date were left out: they may be older than the last week.",
    ]


def test_undated_results_stay_where_there_is_nothing_better():
    """A note says that their age is unknown."""
    kept, notes = of_range(dated(None, None), "d", NOW)
    assert len(kept) == 2
    assert notes == ["No result has a date: they may be older than the last day."]
    kept, notes = of_range(dated(None, "2025-01-01"), "d", NOW)
    assert [result.published_at for result in kept] == [None]
    assert notes[-1] == "No other result has a date: they may be older than the last day."


def test_without_a_range_nothing_is_left_out():
    """And nothing is said."""
    results = dated(None, "2001-01-01")
    assert of_range(results, "", NOW) == (results, [])
    assert of_range([], "d", NOW) == ([], [])

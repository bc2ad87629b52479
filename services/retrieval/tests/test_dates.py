"""Dates read out of questions."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_retrieval.dates import Limit, mentioned_limits, mentioned_periods


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("why did rates rise in March 2022?", [("2022-03-01", "2022-04-01")]),
        ("the January 30-31, 2024 meeting", [("2024-01-30", "2024-02-01")]),
        ("on March 3, 2020", [("2020-03-03", "2020-03-05")]),
        ("statement 2008-12-16", [("2008-12-16", "2008-12-17")]),
        ("policy in Q3 2021", [("2021-07-01", "2021-10-01")]),
        ("the fourth quarter of 1999", [("1999-10-01", "2000-01-01")]),
        ("late 2019 strains", [("2019-09-01", "2020-01-01")]),
        (
            "from Sept. 2001 and in 2005",
            [("2001-09-01", "2001-10-01"), ("2005-01-01", "2006-01-01")],
        ),
        ("low at least through mid-2013", []),
        ("purchases by the end of the second quarter of 2011", []),
        ("a rate of 2000 basis points", [("2000-01-01", "2001-01-01")]),
        ("February 31, 2020", [("2020-01-01", "2021-01-01")]),
        ("no dates at all", []),
    ],
)
def test_periods(question, expected):
    """Each form of a date, in the order of the question."""
    found = [(p.start.isoformat(), p.end.isoformat()) for p in mentioned_periods(question)]
    assert found == expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("low at least through mid-2013", [Limit(date(2013, 9, 1), before=True)]),
        ("to begin in October 2017", [Limit(date(2017, 11, 1), before=True)]),
        ("after the 2003 easing", [Limit(date(2004, 1, 1), before=False)]),
        ("in March 2022", []),
    ],
)
def test_dates_that_are_only_mentioned_are_limits(question, expected):
    """Documents that plan until a day are from before it."""
    assert mentioned_limits(question) == expected


@given(st.text(max_size=300))
def test_any_text_is_read_without_harm(text):
    """Every period is a real one."""
    for period in mentioned_periods(text):
        assert period.start < period.end <= date(2100, 1, 1)

"""The Retry-After header."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from searchbus_upstream import retry_after_s


def test_retry_after_in_both_forms():
    """Seconds or a date."""
    assert retry_after_s({"retry-after": "7"}) == 7.0
    assert retry_after_s({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0.0
    assert retry_after_s({"retry-after": "soon"}) is None
    assert retry_after_s({}) is None


def test_retry_after_of_a_future_date_is_the_time_until_then():
    """In seconds from now."""
    then = datetime.now(UTC) + timedelta(seconds=100)
    assert 90 < retry_after_s({"retry-after": format_datetime(then)}) <= 100

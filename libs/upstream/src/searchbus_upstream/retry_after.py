"""The Retry-After header (RFC 9110, 10.2.3)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, given as a number or a date; None where the header is missing or invalid.

    Args:
        headers: names in lower case.
    """
    value = headers.get("retry-after", "").strip()
    if value.isdigit():
        return float(value)
    try:
        then = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, (then - datetime.now(UTC)).total_seconds())

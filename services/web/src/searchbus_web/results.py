"""Results as the specification shows them: ISO dates, registrable domains, canonical keys."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from urllib.parse import urlsplit

import tldextract

__all__ = ["Result", "iso_date", "plain", "registrable_domain"]


@dataclass(frozen=True, slots=True)
class Result:
    """One result of a provider.

    Args:
        published_at: ISO 8601, a date or a time in UTC.
    """

    title: str
    url: str
    snippet: str = ""
    published_at: str | None = None

    @property
    def source(self) -> str:
        """The registrable domain, or the host where there is none."""
        return registrable_domain(urlsplit(self.url).hostname or "")

    def cleaned(self) -> Result:
        """On one line, without invisible characters; the host where there is no title."""
        title = plain(self.title) or (urlsplit(self.url).hostname or "")
        return replace(self, title=title[:500], snippet=plain(self.snippet)[:2000])


def plain(text: str) -> str:
    """One line without control characters, bidirectional marks and invisible signs."""
    kept = (
        " " if c.isspace() else c
        for c in text
        if c.isspace() or c in "\u200c\u200d" or not unicodedata.category(c).startswith("C")
    )
    return " ".join("".join(kept).split())


@cache
def _suffixes() -> tldextract.TLDExtract:
    # The list that the package brings; it is never fetched.
    return tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)


def registrable_domain(host: str) -> str:
    """`example.co.uk` of `www.news.example.co.uk` (Public Suffix List)."""
    found = _suffixes()(host)
    return found.top_domain_under_public_suffix or host


def iso_date(value: object) -> str | None:
    """ISO 8601 of what providers send: ISO, RFC 1123, seconds of the epoch; None where unknown."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        try:
            return _utc(datetime.fromtimestamp(value, UTC))
        except (ValueError, OverflowError, OSError):
            return None
    text = str(value).strip()
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        try:
            return date.fromisoformat(text).isoformat()
        except ValueError:
            return None
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            return _utc(parse(text))
        except (ValueError, TypeError, IndexError):
            continue
    return None


def _utc(then: datetime) -> str:
    aware = then if then.tzinfo else then.replace(tzinfo=UTC)
    return aware.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

"""One search result: ISO dates, registrable domains, inert text."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from searchbus_contracts.coverage import Ranked
from searchbus_upstream import without_trackers
from searchbus_upstream.text import inert, plain

if TYPE_CHECKING:
    from tldextract import TLDExtract

__all__ = ["Result", "iso_date", "registrable_domain"]


_MAX_DATE_CHARS = 100


@dataclass(frozen=True, slots=True)
class Result:
    """One result of a provider.

    Args:
        published_at: ISO 8601, a date or a time in UTC.
        ranked: of a result that was fused.
    """

    title: str
    url: str
    snippet: str = ""
    published_at: str | None = None
    ranked: Ranked | None = None

    @property
    def source(self) -> str:
        """The registrable domain, or the host where there is none."""
        return registrable_domain(urlsplit(self.url).hostname or "")

    def cleaned(self) -> Result:
        """A copy with title and snippet on one line each, and a URL without tracking parameters.

        The host replaces a missing title.
        """
        title = inert(plain(self.title)) or (urlsplit(self.url).hostname or "")
        return replace(
            self,
            title=title[:500],
            url=without_trackers(self.url),
            snippet=inert(plain(self.snippet))[:2000],
        )


@cache
def _suffixes() -> TLDExtract:
    # Imported at the first search: it brings an HTTP client, which takes as long as the service.
    import tldextract

    # The package's own list: nothing is downloaded.
    return tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)


def registrable_domain(host: str) -> str:
    """`example.co.uk` of `www.news.example.co.uk` (Public Suffix List); else the host."""
    found = _suffixes()(host)
    return found.top_domain_under_public_suffix or host


def iso_date(value: object) -> str | None:
    """ISO 8601 of a provider's date; None where it cannot be read.

    Args:
        value: ISO 8601, RFC 1123, or seconds of the epoch.
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        try:
            return _utc(datetime.fromtimestamp(value, UTC))
        except (ValueError, OverflowError, OSError):
            return None
    text = str(value).strip() if len(str(value)) <= _MAX_DATE_CHARS else ""
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

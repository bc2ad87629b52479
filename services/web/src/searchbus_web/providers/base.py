"""What a search provider is asked, and what it gives: ISO dates, inert text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, Protocol
from urllib.parse import urlsplit

from searchbus_contracts import Actor
from searchbus_contracts.coverage import Ranked
from searchbus_contracts.engines import Filter, Safe, Topic
from searchbus_upstream import without_trackers
from searchbus_upstream.text import inert, plain

if TYPE_CHECKING:
    from tldextract import TLDExtract

TimeRange = Literal["", "d", "w", "m", "y"]
TIME_WORDS: dict[TimeRange, str] = {"d": "day", "w": "week", "m": "month", "y": "year"}
NEWS_TIME: TimeRange = "w"
"""The range of web results that stand for news, where the caller gives no time."""
_MAX_OPERATORS = 8
"""More make a query that engines refuse; the results are filtered afterwards as well."""
_MAX_DATE_CHARS = 100


@dataclass(frozen=True, slots=True)
class Query:
    """One search. Domains are filters of `domains`: `example.org` or `example.org/path`.

    Args:
        region, language: two letters each, or empty; providers without the filter ignore them.
        page: of providers whose `max_pages` are more than one.
    """

    text: str
    limit: int
    time: TimeRange = ""
    topic: Topic = "general"
    include_domains: tuple[str, ...] = ()
    exclude_domains: tuple[str, ...] = ()
    region: str = ""
    language: str = ""
    safe: Safe = ""
    page: int = 1

    @property
    def excluded_hosts(self) -> list[str]:
        """The excluded domains without a path: engines exclude the whole host of a path."""
        return [domain for domain in self.exclude_domains if "/" not in domain]

    def with_operators(self, name: str, max_chars: int = 10_000) -> tuple[str, list[str]]:
        """The text with its filters, `cats (site:a.org OR site:b.org) -site:c.org`, and notes on
        what a provider of this name is not asked for.

        For providers without a parameter for domains. Half of the characters at least are for the
        filters: without them all results would be of other sites.
        """
        left_chars = max(max_chars // 2, max_chars - len(self.text) - 1)
        included = _fitting([f"site:{domain}" for domain in self.include_domains], left_chars)
        sites = " OR ".join(included)
        parts = [f"({sites})" if len(included) > 1 else sites] if included else []
        excluded = [f"-site:{domain}" for domain in self.excluded_hosts]
        parts += _fitting(excluded, left_chars - len(sites))
        filters = "".join(f" {part}" for part in parts)
        text, notes = shortened(self.text, name, max_chars - len(filters))
        if (asked := len(included)) < (count := len(self.include_domains)):
            told = f"{name} was asked for {asked} of {count} includeDomains."
            notes.append(f"{told} Search for the others separately.")
        return text + filters, notes


def _fitting(operators: Sequence[str], max_chars: int) -> list[str]:
    """The first operators that fit, with what joins them."""
    ends = accumulate(len(operator) + len(" OR ") for operator in operators)
    pairs = zip(operators[:_MAX_OPERATORS], ends, strict=False)
    return [operator for operator, end in pairs if end <= max_chars]


def shortened(text: str, name: str, max_chars: int) -> tuple[str, list[str]]:
    """The words that fit into `max_chars`, and a note where some do not."""
    if len(text) <= max_chars:
        return text, []
    text = text[:max_chars].rsplit(" ", 1)[0]
    return text, [f"{name} searched for the first {len(text)} characters of the query."]


@dataclass(frozen=True, slots=True)
class Result:
    """One result of a provider; its date is ISO 8601, a day or a time in UTC. `ranked`: score and
    positions, once it is fused."""

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


@dataclass(frozen=True, slots=True)
class SearchResults:
    """Results of one provider, best first.

    Args:
        notes: what could not be done as requested.
        stale: whether they are from before, because the provider fails now.
        more: whether the next page has results.
    """

    results: tuple[Result, ...]
    notes: tuple[str, ...] = ()
    stale: bool = False
    more: bool = False


class Provider(Protocol):
    """A web search provider.

    Args:
        name: in notes, metrics and the cache's keys.
        group: providers of one group use the same index and have one vote in the fusion.
        weight: of its vote.
        has_news: whether it searches news; another gives web results of the last days instead.
        filters: what else of a query it can be asked for.
        max_pages: pages of results that it gives.
    """

    name: str
    group: str
    weight: float
    has_news: bool
    filters: tuple[Filter, ...] = ("time", "domains")
    max_pages: int = 1

    async def search(self, query: Query, *, actor: Actor, timeout_s: float) -> SearchResults:
        """Search; raises Fault, and never returns an empty result for a failure."""


@cache
def _suffixes() -> TLDExtract:
    # Imported at the first search: it brings an HTTP client, which takes as long as the service.
    import tldextract

    # The package's own list: nothing is downloaded.
    return tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)


def registrable_domain(host: str) -> str:
    """`example.co.uk` of `www.news.example.co.uk` (Public Suffix List); else the host."""
    return _suffixes()(host).top_domain_under_public_suffix or host


def iso_date(value: object) -> str | None:
    """ISO 8601 of a provider's date (ISO 8601, RFC 1123, or seconds of the epoch); None where it
    cannot be read."""
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
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return None


def _utc(then: datetime) -> str:
    aware = then if then.tzinfo else then.replace(tzinfo=UTC)
    naive = aware.astimezone(UTC).replace(tzinfo=None)
    return f"{naive.isoformat(timespec='seconds')}Z"

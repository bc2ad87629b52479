"""One search with every configured provider; failures of single providers become notes."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from searchbus_contracts import Actor, ErrorCode, Fault, decode, encode
from searchbus_contracts.coverage import SourceCoverage, nothing_found
from searchbus_upstream import Fetched, SharedCache, canonical_key, is_public_url

from .domains import within
from .explaining import explained, left_out
from .fusion import Fused, fuse
from .progress import OnDone, each_reported
from .providers.base import NEWS_TIME, TIME_WORDS, Provider, Query, SearchResults
from .providers.timeouts import ProviderTimeouts
from .recency import newest_first, of_range
from .results import Result

__all__ = ["Metasearch"]

_PROVIDERS_SHARE = 0.85
"""Of the caller's time; the rest is for fusion and the reply."""
_MAX_RESULTS = 30
"""Of one provider."""
_MAX_URL_CHARS = 4096


class Metasearch:
    """Searches with all providers at the same time.

    Args:
        providers: most important first.
        cache: holds each provider's results separately; a failure is never stored.
        fresh_s, news_fresh_s: how old cached results may be.
        stale_s: how old they may be while the provider fails.
        clock: seconds of the epoch, for the time range of a search.
    """

    def __init__(
        self,
        providers: Sequence[Provider],
        cache: SharedCache,
        *,
        fresh_s: float = 600.0,
        news_fresh_s: float = 120.0,
        stale_s: float = 6 * 3600.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._providers = tuple(providers)
        self._cache = cache
        self._fresh_s = fresh_s
        self._news_fresh_s = news_fresh_s
        self._stale_s = stale_s
        self._clock = clock
        self._timeouts = {p.name: ProviderTimeouts(p.name, clock) for p in self._providers}

    @property
    def provider_count(self) -> int:
        """How many providers a search asks."""
        return len(self._providers)

    async def search(
        self,
        query: Query,
        *,
        actor: Actor,
        timeout_s: float,
        explain: bool = False,
        on_done: OnDone | None = None,
    ) -> SearchResults:
        """Search with every provider and fuse the results.

        Args:
            explain: whether the results say why they stand where they do, and what was left out.
            on_done: awaited for each provider that has answered or failed.

        Raises:
            Fault: nothing was found, and a provider failed.
        """
        page = _Page(query)
        outcomes = await each_reported(
            [
                (p.name, self._in_time(p, page, actor, timeout_s * _PROVIDERS_SHARE))
                for p in self._providers
            ],
            on_done,
        )
        lists: dict[str, list[Result]] = {}
        refused: list[tuple[str, Result, str]] = []
        notes: list[str] = []
        failed: list[str] = []
        coverage: list[SourceCoverage] = []
        for provider, outcome in zip(self._providers, outcomes, strict=True):
            if isinstance(outcome, Fault):
                failure = outcome.failure
                failed.append(f"{provider.name} failed ({failure.code}): {failure.message}")
                coverage.append(SourceCoverage.of_failure(provider.name, failure))
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                lists[provider.name] = []
                for result in outcome.results[:_MAX_RESULTS]:
                    if why := _refusal(result, query):
                        refused.append((provider.name, result, why))
                    else:
                        # Cleaned first: fusion should not read megabytes of a stranger's text.
                        lists[provider.name].append(result.cleaned())
                notes += outcome.notes
                count = len(lists[provider.name])
                coverage.append(
                    SourceCoverage.of_results(provider.name, count, stale=outcome.stale)
                )
        if not coverage:
            raise Fault(
                ErrorCode.UNAVAILABLE,
                "No search provider is configured. The operator of this service has to set "
                "SEARCHBUS_WEB_PROVIDERS.",
                retryable=False,
            )
        notes += self._of_news(query, lists)
        notes += failed
        pages = fuse(
            lists,
            groups={p.name: p.group for p in self._providers},
            weights={p.name: p.weight for p in self._providers},
            diverse=not query.include_domains,
        )
        now = datetime.fromtimestamp(self._clock(), UTC)
        in_range, of_dates = of_range([page.result for page in pages], query.time, now)
        if not in_range and (fault := nothing_found(coverage)):
            raise fault
        urls = {result.url for result in in_range}
        kept = [page for page in pages if page.result.url in urls]
        if query.topic == "news":
            shown = newest_first(kept, query.limit, now)
        else:
            shown = kept[: query.limit]
        found = SearchResults(
            tuple(page.result for page in shown), (*notes, *of_dates), coverage=tuple(coverage)
        )
        if not explain:
            return found

        def reason(page: Fused) -> str:
            if page.result.url in urls:
                return "limit"
            return "undated" if page.result.published_at is None else "older"

        others = [(page, reason(page)) for page in pages if page not in shown]
        return replace(
            found,
            why=tuple(explained(page) for page in shown),
            left_out=left_out(refused, others),
        )

    def _of_news(self, query: Query, lists: Mapping[str, Sequence[Result]]) -> list[str]:
        """A note where web results stand for news."""
        if query.topic != "news":
            return []
        news = [provider for provider in self._providers if provider.has_news]
        if not any(lists.values()) or any(lists.get(provider.name) for provider in news):
            return []
        why = "No news provider has results" if news else "No news provider is configured"
        span = TIME_WORDS[query.time or NEWS_TIME]
        return [f"{why}: these are web results of the last {span}."]

    async def _in_time(
        self, provider: Provider, page: _Page, actor: Actor, timeout_s: float
    ) -> SearchResults:
        """The results of one provider, unless the page is full and it takes unusually long."""
        found = await self._timeouts[provider.name].within(
            self._search_one(provider, page.query, actor, timeout_s), page.full
        )
        page.add(found)
        return found

    async def _search_one(
        self, provider: Provider, query: Query, actor: Actor, timeout_s: float
    ) -> SearchResults:
        # Searches for 1 to 10, 11 to 20, … results share cached results.
        rounded = replace(query, limit=min(_MAX_RESULTS, math.ceil(query.limit / 10) * 10))
        fresh_s = self._news_fresh_s if query.topic == "news" else self._fresh_s

        async def fetch() -> Fetched:
            found = await self._timeouts[provider.name].ask(
                lambda: provider.search(rounded, actor=actor, timeout_s=timeout_s), timeout_s
            )
            return Fetched(encode(found))

        key = f"{provider.name}/{rounded!r}"
        cached = await self._cache.get(key, fetch, fresh_s=fresh_s, stale_s=self._stale_s)
        found = decode(cached.value, SearchResults)
        if cached.stale:
            note = f"{provider.name} fails now; its results are from before."
            found = replace(found, notes=(*found.notes, note), stale=True)
        return found


class _Page:
    """The results of a search so far: whether there are as many as were asked for."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.full = asyncio.Event()
        self._known: set[str] = set()

    def add(self, found: SearchResults) -> None:
        """Take the results of one provider."""
        self._known |= {
            canonical_key(result.url)
            for result in found.results
            if not _refusal(result, self.query)
        }
        if len(self._known) >= self.query.limit:
            self.full.set()


def _refusal(result: Result, query: Query) -> str | None:
    """Why a result is left out: it has no public URL, or fails the domain filters; or None.

    Providers ignore or misread some filters.
    """
    if len(result.url) > _MAX_URL_CHARS or not is_public_url(result.url):
        return "not_public"
    included = query.include_domains
    if included and not any(within(result.url, domain) for domain in included):
        return "domain"
    excluded = any(within(result.url, domain) for domain in query.exclude_domains)
    return "domain" if excluded else None

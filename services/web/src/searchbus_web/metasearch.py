"""One search with every configured provider; failures of single providers become notes."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated

from msgspec import Struct

from searchbus_contracts import Actor, ErrorCode, Fault, decode, encode
from searchbus_contracts.codec import doc
from searchbus_contracts.coverage import SourceCoverage, nothing_found
from searchbus_upstream import Fetched, SharedCache, canonical_key, is_public_url

from .domains import within
from .fusion import Fused, WebExplanation, fuse
from .progress import OnDone, each_reported
from .providers.base import (
    NEWS_TIME,
    TIME_WORDS,
    Provider,
    Query,
    Result,
    SearchResults,
    TimeRange,
)
from .providers.timeouts import ProviderTimeouts

MAX_LEFT_OUT = 20
"""Number of pages of an explanation that were left out, the best ones."""
_PROVIDERS_SHARE = 0.85
"""The providers' share of the caller's time; the rest is for fusion and the reply."""
_JOINED_S = 0.1
"""What a search waits longer for the request of another one."""
_MAX_RESULTS = 30
"""Results of one provider."""
_MAX_URL_CHARS = 4096
_DAYS: dict[TimeRange, int] = {"d": 1, "w": 7, "m": 31, "y": 366}


class WebLeftOut(Struct, frozen=True, omit_defaults=True):
    """A page that a provider found and that was left out."""

    url: str
    title: str
    reason: Annotated[
        str,
        doc(
            "limit: behind the last result; older: than the time range; undated: it "
            "may be older; domain: by the domain filters; not_public: no public web address"
        ),
    ]
    explanation: WebExplanation | None = None
    provider: str | None = None


@dataclass(frozen=True, slots=True)
class FusedResults:
    """Results of all providers, best first.

    Args:
        notes: what could not be done as requested, and which provider failed.
        coverage: what each provider gave.
        why: one explanation for each result, where the search explains itself.
        left_out: the best pages that were left out, where the search explains itself.
        more: whether a provider has a further page.
    """

    results: tuple[Result, ...]
    notes: tuple[str, ...] = ()
    coverage: tuple[SourceCoverage, ...] = ()
    why: tuple[WebExplanation, ...] = ()
    left_out: tuple[WebLeftOut, ...] = ()
    more: bool = False


@dataclass(eq=False)
class Metasearch:
    """Searches with all providers at the same time.

    Args:
        providers: most important first.
        others: asked only where a search names them.
        cache: holds each provider's results separately; a failure is never stored.
        fresh_s, news_fresh_s: how old cached results may be.
        stale_s: how old they may be while the provider fails.
        clock: seconds of the epoch, for the time range of a search.
    """

    providers: Sequence[Provider]
    cache: SharedCache
    _: KW_ONLY
    others: Sequence[Provider] = ()
    fresh_s: float = 600.0
    news_fresh_s: float = 120.0
    stale_s: float = 6 * 3600.0
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._timeouts = {
            p.name: ProviderTimeouts(p.name, self.clock) for p in (*self.providers, *self.others)
        }

    @property
    def provider_count(self) -> int:
        """How many providers a search asks."""
        return len(self.providers)

    async def search(
        self,
        query: Query,
        *,
        actor: Actor,
        timeout_s: float,
        explain: bool = False,
        on_done: OnDone | None = None,
        among: Sequence[Provider] | None = None,
        keep: int | None = None,
        boost: Callable[[str], float] = lambda url: 1.0,
    ) -> FusedResults:
        """Search with every provider and fuse the results.

        Args:
            among: the providers to ask; None: all but the others.
            keep: the number of results; None: the query's limit, which each provider is asked for.
            boost: see `fuse`.
            explain: whether the results say why they stand where they do, and what was left out.
            on_done: awaited for each provider that has answered or failed.

        Raises:
            Fault: nothing was found, and a provider failed.
        """
        asked = self.providers if among is None else tuple(among)
        keep = query.limit if keep is None else keep
        page = _Page(query)
        outcomes = await each_reported(
            [(p.name, self._in_time(p, page, actor, timeout_s * _PROVIDERS_SHARE)) for p in asked],
            on_done,
        )
        lists: dict[str, list[Result]] = {}
        refused: list[tuple[str, Result, str]] = []
        notes: list[str] = []
        failed: list[str] = []
        coverage: list[SourceCoverage] = []
        more = False
        for provider, outcome in zip(asked, outcomes, strict=True):
            name = provider.name
            if isinstance(outcome, Fault):
                failure = outcome.failure
                failed.append(f"{name} failed ({failure.code}): {failure.message}")
                coverage.append(SourceCoverage.of_failure(name, failure))
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                lists[name] = []
                for result in outcome.results[:_MAX_RESULTS]:
                    if why := _refusal(result, query):
                        refused.append((name, result, why))
                    else:
                        # Cleaned first: fusion should not read megabytes of a stranger's text.
                        lists[name].append(result.cleaned())
                notes += outcome.notes
                more = more or outcome.more
                count = len(lists[name])
                coverage.append(SourceCoverage.of_results(name, count, stale=outcome.stale))
        if not coverage:
            raise Fault(
                ErrorCode.UNAVAILABLE,
                "No search provider is configured. The operator of this service has to set "
                "SEARCHBUS_WEB_PROVIDERS.",
                retryable=False,
            )
        pages = fuse(
            lists,
            groups={p.name: p.group for p in asked},
            weights={p.name: p.weight for p in asked},
            diverse=not query.include_domains,
            boost=boost,
        )
        now = datetime.fromtimestamp(self.clock(), UTC)
        kept, of_dates = in_range(pages, query.time, now)
        if not kept and (fault := nothing_found(coverage)):
            raise fault
        best = newest_first(kept, keep, now) if query.topic == "news" else kept[:keep]
        found = FusedResults(
            tuple(page.result for page in best),
            (*notes, *_notes_of_news(query, asked, lists), *failed, *of_dates),
            tuple(coverage),
            more=more,
        )
        if not explain:
            return found
        left_out = [
            WebLeftOut(page.result.url, page.result.title, reason, page.why)
            for page in pages
            if page not in best
            for reason in [
                "limit" if page in kept else "older" if page.result.published_at else "undated"
            ]
        ]
        left_out += [
            WebLeftOut(shown.url, shown.title, reason, provider=provider)
            for provider, result, reason in refused
            for shown in [result.cleaned()]
        ]
        return replace(
            found,
            why=tuple(page.why for page in best),
            left_out=tuple(left_out[:MAX_LEFT_OUT]),
        )

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
        fresh_s = self.news_fresh_s if query.topic == "news" else self.fresh_s
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s

        async def fetch() -> Fetched:
            left_s = max(0.001, end_s - loop.time())  # it may have waited for another's request
            found = await self._timeouts[provider.name].ask(
                lambda: provider.search(rounded, actor=actor, timeout_s=left_s), left_s
            )
            return Fetched(encode(found))

        key = f"{provider.name}/{rounded!r}"
        # Of a request that this search made itself, `ask` tells that it was late.
        cached = await self.cache.get(
            key, fetch, fresh_s=fresh_s, stale_s=self.stale_s, timeout_s=timeout_s + _JOINED_S
        )
        found = decode(cached.value, SearchResults)
        if cached.stale:
            note = f"{provider.name} fails now; its results are from before."
            found = replace(found, notes=(*found.notes, note), stale=True)
        return found


def _notes_of_news(
    query: Query, asked: Sequence[Provider], lists: Mapping[str, Sequence[Result]]
) -> list[str]:
    """A note where web results stand for news."""
    if query.topic != "news":
        return []
    news = [provider for provider in asked if provider.has_news]
    if not any(lists.values()) or any(lists.get(provider.name) for provider in news):
        return []
    why = "No news provider has results" if news else "No news provider is configured"
    span = TIME_WORDS[query.time or NEWS_TIME]
    return [f"{why}: these are web results of the last {span}."]


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


def in_range(
    pages: Sequence[Fused], time: TimeRange, now: datetime
) -> tuple[list[Fused], list[str]]:
    """The pages of a time range, which providers ignore or misread; notes on those left out.

    Pages without a date stay only where no other page is left.
    """
    if not time or not pages:
        return list(pages), []
    notes = []
    last = f"the last {TIME_WORDS[time]}"
    undated = [page for page in pages if page.result.published_at is None]
    kept = [
        page
        for page in pages
        if (date := page.result.published_at) is not None and not _is_older(date, time, now)
    ]
    older = len(pages) - len(undated) - len(kept)
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


def _is_older(published_at: str, time: TimeRange, now: datetime) -> bool:
    then = datetime.fromisoformat(published_at)
    aware = then if then.tzinfo else then.replace(tzinfo=UTC)
    # A date stands for its whole day: the page may have been published at the end of it.
    is_date = (then.hour, then.minute, then.second) == (0, 0, 0)
    return aware < now - timedelta(days=_DAYS[time] + is_date)


def _counted(number: int) -> str:
    return "1 result" if number == 1 else f"{number} results"

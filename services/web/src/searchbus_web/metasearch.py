"""One question to every provider that is on; partial results with a named list of failures."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urlsplit

import msgspec

from searchbus_contracts import Actor, ErrorCode, Failure, Fault, decode, encode
from searchbus_upstream import SharedCache, is_public_url

from .fusion import fuse
from .providers.base import Answer, Provider, Query
from .results import Result

__all__ = ["Found", "Metasearch"]

_SHARE = 0.85
"""Of the caller's time for a provider, so that the answer can still be put together."""


class Found(msgspec.Struct):
    """Fused results and what is to be said about them."""

    results: list[Result]
    notes: list[str] = []


class _Kept(msgspec.Struct):
    results: list[Result]
    notes: list[str] = []


class Metasearch:
    """Asks the providers.

    Args:
        providers: in the order of their importance.
        cache: answers of each provider by themselves; a failure is never kept.
        fresh_s, news_fresh_s: how old an answer may be.
    """

    def __init__(
        self,
        providers: Sequence[Provider],
        cache: SharedCache,
        *,
        fresh_s: float = 600.0,
        news_fresh_s: float = 120.0,
        stale_s: float = 6 * 3600.0,
    ) -> None:
        self._providers = tuple(providers)
        self._cache = cache
        self._fresh_s = fresh_s
        self._news_fresh_s = news_fresh_s
        self._stale_s = stale_s

    async def search(self, query: Query, *, actor: Actor, timeout_s: float) -> Found:
        """Search everywhere at once.

        Raises:
            Fault: what failed, where every provider failed; the most helpful of them.
        """
        outcomes = await asyncio.gather(
            *(self._ask(p, query, actor, timeout_s * _SHARE) for p in self._providers),
            return_exceptions=True,
        )
        lists: dict[str, list[Result]] = {}
        failures: dict[str, Failure] = {}
        notes: list[str] = []
        for provider, outcome in zip(self._providers, outcomes, strict=True):
            if isinstance(outcome, Fault):
                failures[provider.name] = outcome.failure
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                lists[provider.name] = [r for r in outcome.results if _fits(r, query)]
                notes += outcome.notes
        if not lists:
            raise _worst(failures)
        notes += [
            f"{name} could not be asked ({failure.code}): {failure.message}"
            for name, failure in failures.items()
        ]
        results = fuse(
            lists,
            groups={p.name: p.group for p in self._providers},
            weights={p.name: p.weight for p in self._providers},
            limit=query.limit,
            diverse=not query.include_domains,
        )
        return Found([result.cleaned() for result in results], notes)

    async def _ask(
        self, provider: Provider, query: Query, actor: Actor, timeout_s: float
    ) -> Answer:
        # Searches for nearly as many results share an answer.
        asked = replace(query, limit=min(30, math.ceil(query.limit / 10) * 10))
        fresh_s = self._news_fresh_s if query.topic == "news" else self._fresh_s

        async def fetch() -> bytes:
            try:
                async with asyncio.timeout(timeout_s):
                    answer = await provider.search(asked, actor=actor, timeout_s=timeout_s)
            except TimeoutError:
                raise Fault(
                    ErrorCode.UPSTREAM_FAILED, f"{provider.name} did not answer in time."
                ) from None
            return encode(_Kept(list(answer.results), list(answer.notes)))

        question = f"{provider.name}/{asked!r}"
        cached = await self._cache.get(question, fetch, fresh_s=fresh_s, stale_s=self._stale_s)
        kept = decode(cached.value, _Kept)
        notes = list(kept.notes)
        if cached.stale:
            notes.append(f"{provider.name} fails now; its results are from before.")
        return Answer(tuple(kept.results), tuple(notes))


def _fits(result: Result, query: Query) -> bool:
    """Whatever a provider makes of the filters, what is given fits them."""
    if not is_public_url(result.url):
        return False
    host = (urlsplit(result.url).hostname or "").lower()

    def of(domain: str) -> bool:
        return host == domain or host.endswith(f".{domain}")

    if query.include_domains and not any(of(domain) for domain in query.include_domains):
        return False
    return not any(of(domain) for domain in query.exclude_domains)


def _worst(failures: dict[str, Failure]) -> Fault:
    """One failure that speaks for all: one that tells when to come again, if there is any."""
    if not failures:
        return Fault(ErrorCode.UNAVAILABLE, "No search provider is configured.")
    if len(failures) == 1:
        return Fault.of(next(iter(failures.values())))
    chosen = min(failures.values(), key=lambda f: (not f.retryable, f.retry_after_ms or 0, f.code))
    every = "; ".join(f"{name}: {f.message}" for name, f in failures.items())
    return Fault(
        chosen.code, f"Every search provider failed. {every}", retryable=chosen.retryable,
        retry_after_ms=chosen.retry_after_ms,
    )  # fmt: skip

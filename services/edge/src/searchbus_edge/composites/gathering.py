"""Asks several sources at once, merges their hits, and says what each gave."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, TypeVar

from msgspec import Struct, to_builtins

from searchbus_bus import Gathered, WithMeta
from searchbus_bus.client.fanout import gather, reciprocal_rank
from searchbus_contracts import Actor, ErrorCode, Failure, Fault
from searchbus_contracts.codec import doc
from searchbus_contracts.coverage import COVERAGE, SourceCoverage, nothing_found
from searchbus_upstream import canonical_key

from .sources import Source, SourceHit, SourceHits

log = logging.getLogger("searchbus.edge")

R = TypeVar("R")
FAILURES = "dev.searchbus/failures"
"""The key in `_meta` of failed sources, by name or URL."""
SHARE = 0.85
"""The sources' share of the caller's time; the rest is for building the result."""
Ask = Callable[[float], Awaitable[Any]]
"""Asks one source; takes its timeout in seconds."""


async def request_all(requests: Mapping[str, Ask], *, timeout_s: float) -> Gathered:
    """Run all concurrently; a Fault or unreadable reply ends its request only, a cancel all."""

    async def guarded(name: str, request: Ask) -> Any:
        try:
            return await request(timeout_s * SHARE)
        except (ValueError, TypeError, LookupError, AttributeError):
            log.exception("the reply of %s could not be read", name)
            message = "Its reply could not be read. Go on without it."
            raise Fault(ErrorCode.INTERNAL, message) from None

    return await gather({name: partial(guarded, name, ask) for name, ask in requests.items()})


def fuse(lists: Mapping[str, Sequence[SourceHit]], weights: Mapping[str, float]) -> list[SourceHit]:
    """Hits, best first; ties by id. What has one key (`keys_of`) is listed once, as first found.

    The score of a source's hit is its weight divided by its rank. Of ten places, a source of weight
    1 and one of .7 get six and four (the method of D'Hondt); a larger constant beside the rank, as
    in other reciprocal rank fusions, would list one source before the other.
    """
    scores: dict[str, float] = {}
    known: dict[str, SourceHit] = {}
    keys = keys_of(lists.values())
    for source, hits in lists.items():
        for rank, hit in enumerate(hits):
            key = keys[hit.id]
            known.setdefault(key, hit)
            weight = weights.get(source, 1.0) * hit.weight
            vote = reciprocal_rank(rank, k=0, weight=weight)
            scores[key] = scores.get(key, 0.0) + vote
    ranked = sorted(known, key=lambda key: (-scores[key], known[key].id))
    return [known[key] for key in ranked]


def keys_of(lists: Iterable[Sequence[SourceHit]]) -> dict[str, str]:
    """Id → what is equal for hits of one page: its address. Documents that share one within their
    collection, as chapters do, are pages of their own."""
    hits = {hit.id: hit for found in lists for hit in found}
    pages = {key: canonical_key(hit.url) if hit.url else key for key, hit in hits.items()}
    places = Counter((hit.source, pages[key]) for key, hit in hits.items() if hit.source != "web")
    return {k: k if places[hit.source, pages[k]] > 1 else pages[k] for k, hit in hits.items()}


class SourceFailure(Struct, omit_defaults=True):
    """A source that gave no results, and why."""

    source: Annotated[str, doc("documents, documents/<collection>, web, or a URL.")]
    code: Annotated[str, doc("forbidden: left out, since the caller lacks a role.")]
    message: str
    retryable: bool = False
    retry_after_ms: int | None = None


Failures = Annotated[
    list[SourceFailure],
    doc("Present where sources failed or were left out: there may be more results."),
]
Coverage = Annotated[
    list[SourceCoverage],
    doc("What each source gave; present where one failed or its results are stale."),
]


def cover(
    names: Iterable[str], found: Mapping[str, SourceHits], failures: Mapping[str, Failure]
) -> list[SourceCoverage]:
    """What the named sources and their parts gave; `failures` of those that did not answer."""
    coverage: list[SourceCoverage] = []
    for name in names:
        if name not in found:
            coverage.append(SourceCoverage.of_failure(name, failures[name]))
            continue
        reply = found[name]
        whole = SourceCoverage.of_results(name, len(reply.hits))
        coverage += reply.parts or ([whole] if reply.hits or not reply.failures else [])
        coverage += (SourceCoverage.of_failure(part, why) for part, why in reply.failures.items())
    return coverage


def described(failures: Mapping[str, Failure]) -> list[SourceFailure]:
    """The failures by name, as an answer shows them."""
    return [
        SourceFailure(name, f.code, f.message, f.retryable, f.retry_after_ms)
        for name, f in failures.items()
    ]


def with_meta(
    value: R, failures: Mapping[str, Failure], coverage: list[SourceCoverage]
) -> WithMeta[R]:
    """An answer with its coverage in `_meta`, and the failures by name where there are any."""
    meta: dict[str, Any] = {COVERAGE: to_builtins(coverage)}
    if failures:
        meta[FAILURES] = {name: to_builtins(failure) for name, failure in failures.items()}
    return WithMeta(value, meta)


_HITS_PER_SOURCE = 10


class Found(Struct, frozen=True):
    """The hits of one query, best first; sources that failed or were left out; what each gave."""

    hits: Sequence[SourceHit]
    failures: Mapping[str, Failure]
    coverage: Sequence[SourceCoverage]


async def find(
    sources: Sequence[Source],
    weights: Mapping[str, float],
    query: str,
    *,
    passages: int,
    actor: Actor,
    timeout_s: float,
) -> Found:
    """Ask all sources at once; one that fails leaves the hits of the others."""
    failures = {s.name: why for s in sources if (why := s.absence(actor))}

    def asking(source: Source) -> Ask:
        return lambda timeout_s: source.search(
            query, _HITS_PER_SOURCE, passages=passages, actor=actor, timeout_s=timeout_s
        )

    there = [source for source in sources if source.name not in failures]
    gathered = await request_all({s.name: asking(s) for s in there}, timeout_s=timeout_s)
    found: Mapping[str, SourceHits] = gathered.replies
    failures |= gathered.failures
    coverage = cover((source.name for source in sources), found, failures)
    for reply in found.values():
        failures |= reply.failures
    return Found(fuse({n: reply.hits for n, reply in found.items()}, weights), failures, coverage)


def raise_if_failed(coverage: Sequence[SourceCoverage]) -> None:
    """Raise Fault where an empty answer would hide a failure."""
    if not coverage:
        raise Fault(
            ErrorCode.UNAVAILABLE,
            "No source is configured. The operator of this service has to give one a weight.",
            retryable=False,
        )
    if fault := nothing_found(coverage):
        raise fault

"""Finds hits in all sources at once: those of one query, fused, and what each source gave."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from msgspec import Struct

from searchbus_contracts import Actor, ErrorCode, Failure, Fault
from searchbus_contracts.coverage import SourceCoverage, nothing_found

from .gathering import Ask, cover, fuse, request_all
from .sources import Source, SourceHit, SourceHits

_HITS_PER_SOURCE = 10


class Found(Struct, frozen=True):
    """The hits of one query, best first; the sources that failed or were left out; what each
    gave."""

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
    requests: dict[str, Ask] = {
        source.name: functools.partial(_search, source, query, actor, passages)
        for source in sources
        if source.name not in failures
    }
    gathered = await request_all(requests, timeout_s=timeout_s)
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


async def _search(
    source: Source, query: str, actor: Actor, passages: int, timeout_s: float
) -> SourceHits:
    return await source.search(
        query, _HITS_PER_SOURCE, passages=passages, actor=actor, timeout_s=timeout_s
    )

"""Which hits match a query at all: every search has a best hit, also where no document is near.

The values were chosen on questions about FOMC documents, aircraft and this project, asked of all
three collections at once: hits of another collection fall from 1.2 to .1 of ten, and no document
that answers is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from searchbus_contracts.retrieval import SearchHit, SearchReply
from searchbus_vectors import terms

from .explaining import left_out

__all__ = ["near", "only_relevant", "relevant"]

_SURE_COSINE = 0.62
"""From here on a passage matches. One in eight questions about FOMC documents has no such passage,
and nine in ten questions about aircraft have none among these documents."""
_LEAST_COSINE = 0.55
"""From here on it matches if it has `_LEAST_SHARE` of the query's words. Small talk has no such
passage."""
_LEAST_SHARE = 1 / 3
_BEHIND_BEST = 0.15
"""A passage whose cosine is further behind the best one's is beside the point."""


def near(query: str, hits: Sequence[SearchHit]) -> list[SearchHit]:
    """The hits that are near to the query, and those in which it stands word for word."""
    wanted = set(terms(query))
    return [hit for hit in hits if hit.literal or _is_near(hit, wanted)]


def relevant(query: str, hits: Sequence[SearchHit]) -> list[SearchHit]:
    """As `near`, and without those that are far behind the best."""
    floor = _floor(hits)
    return [hit for hit in near(query, hits) if hit.literal or hit.cosine >= floor]


def only_relevant(query: str, reply: SearchReply) -> SearchReply:
    """The reply without the hits that are not `relevant`; an explained one says why each is out."""
    kept = relevant(query, reply.hits)
    left = reply.left_out
    if reply.readings:  # it explains itself
        close = near(query, reply.hits)
        far = [hit for hit in reply.hits if hit not in close]
        behind = [hit for hit in close if hit not in kept]
        left = (
            *left_out(behind, "behind_best", floor=_floor(reply.hits)),
            *left_out(far, "far", floor=_SURE_COSINE),
            *left,
        )
    return msgspec.structs.replace(reply, hits=tuple(kept), left_out=left)


def _floor(hits: Sequence[SearchHit]) -> float:
    return max((hit.cosine for hit in hits), default=0.0) - _BEHIND_BEST


def _is_near(hit: SearchHit, wanted: set[str]) -> bool:
    if not _LEAST_COSINE <= hit.cosine < _SURE_COSINE:
        return hit.cosine >= _SURE_COSINE
    shared = wanted & set(terms(f"{hit.title} {hit.text}"))
    return len(shared) >= max(1, _LEAST_SHARE * len(wanted))

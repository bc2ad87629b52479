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
_LEAST_COSINE_OF_WORDS, _MOST_WORDS, _FEW_WORDS = 0.45, 3 / 4, 4
"""From here on it matches if it has `_MOST_WORDS` of at least `_FEW_WORDS` words: a question about
a person has a low cosine to every passage, since names say little to the model."""
_BEHIND_BEST = 0.15
"""A passage whose cosine is further behind the best one's is beside the point."""


def near(query: str, hits: Sequence[SearchHit]) -> list[SearchHit]:
    """The hits that are near to the query, and those in which it stands word for word."""
    wanted = set(terms(query))
    return [hit for hit in hits if hit.literal or _is_near(hit, wanted)]


def relevant(query: str, hits: Sequence[SearchHit]) -> list[SearchHit]:
    """As `near`, and without those that are far behind the nearest; the first one stays."""
    floor = _floor(hits)
    close = near(query, hits)
    return [hit for hit in close if hit is close[0] or hit.literal or hit.cosine >= floor]


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
    if hit.cosine >= _SURE_COSINE:
        return True
    if hit.cosine < _LEAST_COSINE_OF_WORDS:
        return False
    shared = len(wanted & set(terms(f"{hit.title} {hit.text}")))
    if len(wanted) >= _FEW_WORDS and shared >= _MOST_WORDS * len(wanted):
        return True
    return hit.cosine >= _LEAST_COSINE and shared >= max(1, _LEAST_SHARE * len(wanted))

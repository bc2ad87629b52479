"""Which hits answer a query at all: every search has a best hit, also where no document is near."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from searchbus_contracts.retrieval import LEAST_RELEVANCE, SearchHit, SearchReply

from .explaining import left_out

__all__ = ["near", "only_relevant", "relevant"]

_BEHIND_BEST = 0.15
"""A passage whose cosine is further behind the best one's is beside the point."""


def near(hits: Sequence[SearchHit]) -> list[SearchHit]:
    """The hits that probably answer."""
    return [hit for hit in hits if (hit.relevance or 0.0) >= LEAST_RELEVANCE]


def relevant(hits: Sequence[SearchHit]) -> list[SearchHit]:
    """As `near`, and without those that are far behind the nearest; the first one stays."""
    floor = _floor(hits)
    close = near(hits)
    return [hit for hit in close if hit is close[0] or hit.literal or hit.cosine >= floor]


def only_relevant(reply: SearchReply) -> SearchReply:
    """The reply without the hits that are not `relevant`; an explained one says why each is out."""
    kept = relevant(reply.hits)
    left = reply.left_out
    if reply.readings:  # it explains itself
        close = near(reply.hits)
        far = [hit for hit in reply.hits if hit not in close]
        behind = [hit for hit in close if hit not in kept]
        left = (
            *left_out(behind, "behind_best", floor=_floor(reply.hits)),
            *left_out(far, "far", floor=LEAST_RELEVANCE),
            *left,
        )
    return msgspec.structs.replace(reply, hits=tuple(kept), left_out=left)


def _floor(hits: Sequence[SearchHit]) -> float:
    return max((hit.cosine for hit in hits), default=0.0) - _BEHIND_BEST

"""Which hits match a query at all: every search has a best hit, also where no document is near."""

from __future__ import annotations

from collections.abc import Sequence

from searchbus_contracts.retrieval import SearchHit

__all__ = ["near", "relevant"]

_MIN_COSINE = 0.55
"""A passage with a lower cosine does not match. The value is low: of 56 questions about FOMC
documents 2 have no passage above it, small talk has none, but most technical questions of another
field have some."""
_BEHIND_BEST = 0.1
"""A passage whose cosine is further behind the best one's is beside the point."""


def near(hits: Sequence[SearchHit]) -> list[SearchHit]:
    """The hits that are near to the query, and those in which it stands word for word."""
    return [hit for hit in hits if hit.literal or hit.cosine >= _MIN_COSINE]


def relevant(hits: Sequence[SearchHit]) -> list[SearchHit]:
    """As `near`, and without those that are far behind the best."""
    floor = max((hit.cosine for hit in hits), default=0.0) - _BEHIND_BEST
    return [hit for hit in near(hits) if hit.literal or hit.cosine >= floor]

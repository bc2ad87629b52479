"""Queries that DuckDuckGo refused repeatedly: none of the workers sends them for a while.

A query that gets a blank page or a challenge wherever it is sent would otherwise cost another
address each time that a caller repeats it.
"""

from __future__ import annotations

import math
import time

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.web import WebSearchRequest
from searchbus_upstream import SharedCache

__all__ = ["REMEMBERED_S", "RefusedQueries"]

REMEMBERED_S = 600.0


class RefusedQueries:
    """The queries of the whole fleet.

    Args:
        cache: shared by the workers.
    """

    def __init__(self, cache: SharedCache) -> None:
        self._cache = cache

    async def require_none(self, request: WebSearchRequest) -> None:
        """Raise upstream_blocked where the query was refused in the last ten minutes."""
        known = await self._cache.stored(_key_of(request), fresh_s=REMEMBERED_S)
        if known is not None:
            raise _fault(REMEMBERED_S - (time.time() - known.made_ms / 1000))

    async def add(self, request: WebSearchRequest) -> Fault:
        """Remember a query; returns the failure for the caller."""
        await self._cache.store(_key_of(request), b"refused")
        return _fault(REMEMBERED_S)


def _key_of(request: WebSearchRequest) -> str:
    return f"refused/{(request.query, request.region, request.time, request.safe)!r}"


def _fault(remaining_s: float) -> Fault:
    wait_s = max(1, math.ceil(remaining_s))
    return Fault(
        ErrorCode.UPSTREAM_BLOCKED,
        "DuckDuckGo refuses this query. This does not mean that there are no results. Change the "
        f"query, use another search tool, or try again in {wait_s} seconds.",
        retry_after_ms=wait_s * 1000,
    )

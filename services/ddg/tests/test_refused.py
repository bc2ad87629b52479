"""Queries that no worker sends for a while."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault
from searchbus_contracts.web import WebSearchRequest
from searchbus_ddg.refused import REMEMBERED_S, RefusedQueries
from searchbus_upstream import SharedCache

CATS = WebSearchRequest(query="cats")


async def test_refused_query_is_remembered():
    """With what it was searched for; the number of rows does not matter."""
    queries = RefusedQueries(SharedCache())
    await queries.require_none(CATS)
    added = await queries.add(CATS)
    assert (added.code, added.failure.retry_after_ms) == ("upstream_blocked", 600_000)
    with pytest.raises(Fault) as caught:
        await queries.require_none(WebSearchRequest(query="cats", limit=30))
    assert caught.value.code == "upstream_blocked"
    assert caught.value.failure.retryable
    assert 0 < caught.value.failure.retry_after_ms <= 600_000
    await queries.require_none(WebSearchRequest(query="cats", region="de-de"))
    await queries.require_none(WebSearchRequest(query="dogs"))


async def test_refused_query_is_sent_again_after_a_while():
    """DuckDuckGo may have changed its mind."""
    now_s = [1000.0]
    queries = RefusedQueries(SharedCache(clock=lambda: now_s[0]))
    await queries.add(CATS)
    now_s[0] += REMEMBERED_S
    await queries.require_none(CATS)

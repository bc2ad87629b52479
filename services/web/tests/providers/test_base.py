"""The interface of providers."""

from __future__ import annotations

from searchbus_contracts import decode, encode
from searchbus_web.providers.base import Query, SearchResults
from searchbus_web.results import Result


def test_results_can_be_cached():
    """They are the same after encoding and decoding."""
    results = SearchResults((Result("t", "http://a.org/", "s", "2026-03-02"),), ("note",))
    assert decode(encode(results), SearchResults) == results


def test_equal_queries_have_equal_texts():
    """The cache's key is made of them."""
    one = Query("cats", 5, include_domains=("a.org",))
    assert repr(one) == repr(Query("cats", 5, include_domains=("a.org",)))
    assert repr(one) != repr(Query("cats", 5, exclude_domains=("a.org",)))

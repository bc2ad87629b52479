"""Several sources at once: asked, merged, and what each gave."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_contracts import ErrorCode, Failure, Fault
from searchbus_contracts.coverage import COVERAGE, SourceCoverage
from searchbus_edge.composites.gathering import (
    FAILURES,
    SHARE,
    cover,
    described,
    fuse,
    request_all,
    with_meta,
)
from searchbus_edge.composites.sources import SourceHit, SourceHits


async def test_replies_and_failures_are_told_apart(caplog):
    """In the order of the requests; a reply that cannot be read is a failure."""

    async def good(timeout_s):
        await asyncio.sleep(0.01)
        return timeout_s

    async def fault(timeout_s):
        raise Fault(ErrorCode.UPSTREAM_BLOCKED, "Refused.")

    async def garbage(timeout_s):
        return {}["results"]

    gathered = await request_all({"a": good, "b": fault, "c": garbage, "d": good}, timeout_s=10)
    assert gathered.replies == {"a": 10 * SHARE, "d": 10 * SHARE}
    assert list(gathered.replies) == ["a", "d"]
    assert gathered.failures["b"].code == "upstream_blocked"
    assert gathered.failures["c"].code == "internal"
    assert "the reply of c could not be read" in caplog.text


def test_documents_that_share_an_address_are_pages_of_their_own():
    """As chapters of one file; of other sources, and other collections, it is one page."""

    def at(hit_id: str, source: str, url: str = "http://a.org/book#1") -> SourceHit:
        return SourceHit(hit_id, "T", url, source)

    chapters = [at(f"doc:c:{n}", "documents/c", f"http://a.org/book#{n}") for n in range(3)]
    assert fuse({"documents": chapters}, {}) == chapters
    page, copy = at("web:1", "web"), at("doc:d:1", "documents/d")
    assert fuse({"documents": chapters[:1], "web": [page]}, {}) == chapters[:1]
    assert fuse({"documents": [chapters[1], copy]}, {}) == [chapters[1]]
    assert len(fuse({"documents": chapters, "web": [page]}, {})) == 4


async def test_cancelling_ends_every_request():
    """And so every worker behind them."""
    started, cancelled = asyncio.Event(), []

    async def wait(timeout_s):
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    task = asyncio.create_task(request_all({"a": wait, "b": wait}, timeout_s=10))
    await started.wait()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(cancelled) == 2


def hit(name: str, url: str = "", weight: float = 1.0) -> SourceHit:
    source = "web" if name.startswith("w") else f"documents/{name[0]}"
    return SourceHit(name, name, url, source, weight=weight)


def ids(lists, weights=None) -> list[str]:
    return [h.id for h in fuse(lists, weights or {})]


def test_each_source_gets_places_in_proportion_to_its_weight():
    """Of ten, six and four for weights of 1 and .7, also where one source has many hits."""
    lists = {
        "documents": [hit(f"d{n}") for n in range(10)],
        "web": [hit(f"w{n}") for n in range(10)],
    }
    found = ids(lists, {"documents": 1.0, "web": 0.7})[:10]
    assert found == ["d0", "w0", "d1", "w1", "d2", "d3", "w2", "d4", "w3", "d5"]


def test_hits_alternate_by_rank_and_weight():
    """Equal ranks: the heavier source first, then by id."""
    lists = {"web": [hit("w1"), hit("w2")], "documents": [hit("d1"), hit("d2")]}
    assert ids(lists) == ["d1", "w1", "d2", "w2"]
    assert ids(lists, {"web": 1.0, "documents": 0.5}) == ["w1", "d1", "w2", "d2"]


def test_unsure_hits_count_less():
    """By the weight that their source gave them."""
    assert ids({"a": [hit("a1", weight=0.5)], "b": [hit("b1"), hit("b2")]}) == ["b1", "a1", "b2"]


def test_page_of_two_sources_is_listed_once_and_rises():
    """Equal addresses, apart from www, tracking parameters and the like."""
    lists = {
        "documents": [hit("d1"), hit("d2"), hit("d3", "https://x.example/a")],
        "web": [hit("w1"), hit("w2"), hit("w3", "https://www.x.example/a?utm_source=y")],
    }
    assert ids(lists) == ["d1", "w1", "d3", "d2", "w2"]


def test_no_hits_give_no_hits():
    """Whatever the sources."""
    assert ids({}) == []
    assert ids({"a": []}) == []


def test_hit_whose_address_is_none_harms_no_other():
    """The address of a document is whatever was sent with it."""
    assert ids({"documents": [hit("d1", "http://[x"), hit("d2", "http://a.org/")]}) == ["d1", "d2"]


REFUSED = Failure(code="upstream_blocked", message="Refused.", retryable=True, retry_after_ms=9)
GONE = Failure(code="unavailable", message="Gone.")
HIT = SourceHit("a:1", "Title", "https://a.example", "a")


def states(coverage):
    return [(entry.source, entry.state, entry.results) for entry in coverage]


def test_every_source_has_one_entry_in_the_given_order():
    """Those that answered and those that failed."""
    found = {"a": SourceHits([HIT, HIT]), "c": SourceHits([])}
    coverage = cover(["a", "b", "c"], found, {"b": REFUSED})
    assert states(coverage) == [("a", "answered", 2), ("b", "blocked", 0), ("c", "empty", 0)]
    assert coverage[1].retry_after_ms == 9


def test_parts_stand_for_their_source():
    """A collection that failed stands beside those that answered."""
    part = SourceCoverage.of_results("a/x", 1)
    found = {"a": SourceHits([HIT], {"a/y": GONE}, [part])}
    assert states(cover(["a"], found, {})) == [("a/x", "answered", 1), ("a/y", "failed", 0)]


def test_source_without_parts_is_named_if_it_gave_anything():
    """A worker that does not name its parts."""
    assert states(cover(["a"], {"a": SourceHits([HIT], {"a/y": GONE})}, {})) == [
        ("a", "answered", 1),
        ("a/y", "failed", 0),
    ]
    assert states(cover(["a"], {"a": SourceHits([], {"a/y": GONE})}, {})) == [("a/y", "failed", 0)]


def test_meta_has_the_coverage_and_the_failures():
    """As JSON values; failures only where there are any."""
    (entry,) = cover(["a"], {"a": SourceHits([HIT])}, {})
    plain = with_meta("value", {}, [entry])
    assert plain.meta == {COVERAGE: [{"source": "a", "state": "answered", "results": 1}]}
    failed = with_meta("value", {"b": REFUSED}, [entry])
    assert failed.meta[FAILURES]["b"]["code"] == "upstream_blocked"
    assert [f.source for f in described({"b": REFUSED})] == ["b"]

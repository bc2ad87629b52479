"""The coverage of an answer: one entry for each source or for each of its parts."""

from __future__ import annotations

from searchbus_contracts import Failure
from searchbus_contracts.coverage import COVERAGE, SourceCoverage
from searchbus_edge.composites.coverage import FAILURES, cover, described, with_meta
from searchbus_edge.composites.sources import Found, Hit

REFUSED = Failure(code="upstream_blocked", message="Refused.", retryable=True, retry_after_ms=9)
GONE = Failure(code="unavailable", message="Gone.")
HIT = Hit("a:1", "Title", "https://a.example", "a")


def states(coverage):
    return [(entry.source, entry.state, entry.results) for entry in coverage]


def test_every_source_has_one_entry_in_the_given_order():
    """Those that answered and those that failed."""
    found = {"a": Found([HIT, HIT]), "c": Found([])}
    coverage = cover(["a", "b", "c"], found, {"b": REFUSED})
    assert states(coverage) == [("a", "answered", 2), ("b", "blocked", 0), ("c", "empty", 0)]
    assert coverage[1].retry_after_ms == 9


def test_parts_stand_for_their_source():
    """A collection that failed stands beside those that answered."""
    part = SourceCoverage.of_results("a/x", 1)
    found = {"a": Found([HIT], {"a/y": GONE}, [part])}
    assert states(cover(["a"], found, {})) == [("a/x", "answered", 1), ("a/y", "failed", 0)]


def test_source_without_parts_is_named_if_it_gave_anything():
    """A worker that does not name its parts."""
    assert states(cover(["a"], {"a": Found([HIT], {"a/y": GONE})}, {})) == [
        ("a", "answered", 1),
        ("a/y", "failed", 0),
    ]
    assert states(cover(["a"], {"a": Found([], {"a/y": GONE})}, {})) == [("a/y", "failed", 0)]


def test_meta_has_the_coverage_and_the_failures():
    """As JSON values; failures only where there are any."""
    (entry,) = cover(["a"], {"a": Found([HIT])}, {})
    plain = with_meta("value", {}, [entry])
    assert plain.meta == {COVERAGE: [{"source": "a", "state": "answered", "results": 1}]}
    failed = with_meta("value", {"b": REFUSED}, [entry])
    assert failed.meta[FAILURES]["b"]["code"] == "upstream_blocked"
    assert [f.source for f in described({"b": REFUSED})] == ["b"]

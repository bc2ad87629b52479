"""Weighted reciprocal rank fusion of hits."""

from __future__ import annotations

from searchbus_edge.composites.fusion import fuse
from searchbus_edge.composites.sources import Hit


def hit(name: str, url: str = "", weight: float = 1.0) -> Hit:
    return Hit(name, name, url, "s", weight=weight)


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

"""Fusion of several providers' results."""

from __future__ import annotations

from searchbus_web.fusion import fuse
from searchbus_web.results import Result


def row(url: str, title: str = "t", snippet: str = "") -> Result:
    return Result(title, url, snippet)


def test_one_index_has_one_vote():
    """Two providers that use the same index count once."""
    lists = {
        "ddg": [row("http://a.org/"), row("http://b.org/")],
        "bing": [row("http://a.org/"), row("http://c.org/")],
        "brave": [row("http://b.org/")],
    }
    ranked = fuse(lists, groups={"ddg": "bing", "bing": "bing", "brave": "brave"}, weights={})
    assert ranked[0].url == "http://b.org/"


def test_near_duplicates_are_merged_with_the_longer_text():
    """A copied article counts for the URL that was found first."""
    text = (
        "The committee decided today to raise the target range by a quarter point and said that "
        * 2
    )
    ranked = fuse(
        {"a": [row("http://a.org/1", "Rates up", text)], "b": [row("http://copy.net/9", "Rates up", text + "more")]},
        groups={}, weights={},
    )  # fmt: skip
    assert [r.url for r in ranked] == ["http://a.org/1"]
    assert ranked[0].snippet.endswith("more")


def urls(results: list[Result]) -> list[str]:
    return [result.url for result in results]


def test_ranks_decide_and_weights_shift_them():
    """The first rank of a lighter provider comes behind that of a heavier one."""
    lists = {"a": [row("http://a.org/1"), row("http://a2.org/2")], "b": [row("http://b.org/1")]}
    ranked = fuse(lists, groups={}, weights={"a": 1.0, "b": 0.99})
    assert urls(ranked) == ["http://a.org/1", "http://b.org/1", "http://a2.org/2"]
    light = fuse(lists, groups={}, weights={"a": 1.0, "b": 0.5})
    assert urls(light) == ["http://a.org/1", "http://a2.org/2", "http://b.org/1"]


def test_spellings_of_one_url_are_one_result():
    """With the earlier date and the longer title."""
    one = Result("t", "https://a.org/x", published_at="2026-03-02")
    other = Result("title", "http://www.a.org/x/?utm_source=y", published_at="2026-03-01")
    (merged,) = fuse({"a": [one], "b": [other]}, groups={}, weights={})
    assert merged == Result("title", "https://a.org/x", published_at="2026-03-01")


def test_no_domain_pushes_out_the_others():
    """At most three before the rest, unless the caller named the domains."""
    many = [row(f"http://a.org/{n}") for n in range(5)] + [row("http://b.org/")]
    spread = fuse({"x": many}, groups={}, weights={})
    assert urls(spread).index("http://b.org/") == 3
    kept = fuse({"x": many}, groups={}, weights={}, diverse=False)
    assert urls(kept) == [result.url for result in many]

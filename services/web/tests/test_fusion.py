"""Fusion of several providers' results."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from searchbus_contracts.coverage import Ranked
from searchbus_web.fusion import Fused, ProviderVote, WebExplanation, fuse
from searchbus_web.providers.base import Result


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
    assert ranked[0].result.url == "http://b.org/"
    votes = [(v.provider, v.rank, v.counted) for v in ranked[1].why.votes]
    assert votes == [("ddg", 1, True), ("bing", 1, False)]
    assert ranked[1].why.score == ranked[1].why.votes[0].score


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
    assert urls(ranked) == ["http://a.org/1"]
    assert ranked[0].result.snippet.endswith("more")
    assert ranked[0].why.copies == ["http://copy.net/9"]
    assert ranked[0].why.score == pytest.approx(sum(vote.score for vote in ranked[0].why.votes))


def urls(pages: list[Fused]) -> list[str]:
    return [page.result.url for page in pages]


def test_ranks_decide_and_weights_shift_them():
    """The first rank of a lighter provider comes behind that of a heavier one."""
    lists = {"a": [row("http://a.org/1"), row("http://a2.org/2")], "b": [row("http://b.org/1")]}
    ranked = fuse(lists, groups={}, weights={"a": 1.0, "b": 0.99})
    assert urls(ranked) == ["http://a.org/1", "http://b.org/1", "http://a2.org/2"]
    light = fuse(lists, groups={}, weights={"a": 1.0, "b": 0.5})
    assert urls(light) == ["http://a.org/1", "http://a2.org/2", "http://b.org/1"]


def test_first_of_one_is_before_the_last_of_two():
    """Two mean votes do not outweigh a good one, also where its provider weighs less."""
    tails = [
        [row(f"http://{name}{n}.org/") for n in range(9)] + [row("http://last.org/")]
        for name in "ab"
    ]
    lists = {"a": tails[0], "b": tails[1], "c": [row("http://first.org/")]}
    ranked = urls(fuse(lists, groups={}, weights={"c": 0.8}))
    assert ranked.index("http://first.org/") < ranked.index("http://last.org/") < 20


def test_spellings_of_one_url_are_one_result():
    """With the longer title."""
    one = Result("t", "https://a.org/x")
    other = Result("title", "http://www.a.org/x/?utm_source=y", published_at="2026-03-01")
    (merged,) = fuse({"a": [one], "b": [other]}, groups={}, weights={})
    assert replace(merged.result, ranked=None) == Result(
        "title", "https://a.org/x", published_at="2026-03-01"
    )


def test_score_is_the_share_of_the_votes():
    """1 where each provider that has results has the page first; copies of an index count once."""
    lists = {
        "ddg": [row("http://a.org/"), row("http://b.org/")],
        "bing": [row("http://a.org/")],
        "brave": [row("http://a.org/"), row("http://b.org/")],
        "empty": [],
    }
    first, second = fuse(lists, groups={"ddg": "bing", "bing": "bing"}, weights={"brave": 0.5})
    assert first.result.ranked == Ranked(1.0, {"ddg": 1, "bing": 1, "brave": 1})
    assert second.result.ranked == Ranked(round(5 / 6, 4), {"ddg": 2, "brave": 2})
    only_light = fuse({"a": [row("http://a.org/")], "b": [row("http://b.org/")]},
                      groups={}, weights={"b": 0.25})  # fmt: skip
    assert [page.result.ranked.score for page in only_light] == [0.8, 0.2]


BOILERPLATE = (
    "All the regional news, weather and traffic reports of today and the week, in one place."
)


def test_pages_of_one_host_with_one_text_stay_two():
    """A copy at another host is merged."""
    pages = [row(f"http://www.a.org/{n}", "The Daily", BOILERPLATE) for n in range(2)]
    copy = row("http://b.net/", "The Daily", BOILERPLATE)
    assert urls(fuse({"x": [*pages, copy]}, groups={}, weights={})) == [page.url for page in pages]
    across = fuse({"x": pages[:1], "y": pages[1:]}, groups={}, weights={})
    assert sorted(urls(across)) == [page.url for page in pages]


@pytest.mark.parametrize(
    ("dates", "date"),
    [
        (["2020-01-01", "2026-03-01", "2026-03-01T08:00:00Z"], "2026-03-01T08:00:00Z"),
        (["2026-03-02", "2020-01-01"], "2026-03-02"),
        ([None, "2026-03-02", None], "2026-03-02"),
        ([None, None], None),
    ],
)
def test_date_is_that_of_most_results(dates, date):
    """Of the provider named first where each says another."""
    lists = {f"p{n}": [Result("t", "http://a.org/", "", day)] for n, day in enumerate(dates)}
    (merged,) = fuse(lists, groups={}, weights={})
    assert merged.result.published_at == date


def test_date_of_a_copy_serves_where_the_page_has_none():
    """It was copied later."""
    page = Result("Rates up", "http://a.org/", BOILERPLATE, "2026-03-01")
    copies = [Result("Rates up", f"http://c{n}.net/", BOILERPLATE, "2026-04-01") for n in range(2)]
    (merged,) = fuse({"x": [page, *copies]}, groups={}, weights={})
    assert merged.result.published_at == "2026-03-01"
    undated = Result("Rates up", "http://a.org/", BOILERPLATE)
    (merged,) = fuse({"x": [undated, *copies]}, groups={}, weights={})
    assert merged.result.published_at == "2026-04-01"


def test_no_domain_pushes_out_the_others():
    """At most three before the rest, unless the caller named the domains."""
    many = [row(f"http://a.org/{n}") for n in range(5)] + [row("http://b.org/")]
    spread = fuse({"x": many}, groups={}, weights={})
    assert urls(spread).index("http://b.org/") == 3
    assert [page.why.behind_others for page in spread] == [False] * 4 + [True] * 2
    kept = fuse({"x": many}, groups={}, weights={}, diverse=False)
    assert urls(kept) == [result.url for result in many]


def test_explanation_shows_every_vote():
    """Those that do not count, too; fields with their usual value are left out."""
    votes = [ProviderVote("x", 1, 0.2), ProviderVote("y", 2, 0.1429, counted=False)]
    assert msgspec.to_builtins(WebExplanation(0.2, votes, ["http://b.org/"])) == {
        "score": 0.2,
        "votes": [
            {"provider": "x", "rank": 1, "score": 0.2},
            {"provider": "y", "rank": 2, "score": 0.1429, "counted": False},
        ],
        "copies": ["http://b.org/"],
    }

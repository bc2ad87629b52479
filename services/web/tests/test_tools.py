"""The tools of toolset `web`."""

from __future__ import annotations

import hashlib
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import jsonschema_rs
import msgspec
import pytest

from searchbus_contracts import Actor, Fault
from searchbus_contracts.coverage import COVERAGE, RANKING, Ranked, SourceCoverage
from searchbus_contracts.schemas import levels
from searchbus_web.extraction.extractor import ExtractedPage, start_of
from searchbus_web.extraction.fetching import MAX_URL_CHARS
from searchbus_web.fusion import ProviderVote, WebExplanation
from searchbus_web.metasearch import FusedResults, WebLeftOut
from searchbus_web.providers.base import Query, Result
from searchbus_web.service import build_worker
from searchbus_web.tools import (
    ROLE,
    WebExtract,
    WebSearch,
    WebSearchAdvanced,
    WebSearchNews,
    WebTools,
    read_time_range,
    read_urls,
)

CALL = SimpleNamespace(actor=Actor(subject="caller"), remaining_s=20.0)


class FakeMetasearch:
    """Returns two results; keeps the queries."""

    coverage: tuple[SourceCoverage, ...] = ()
    provider_count = 1

    def __init__(self) -> None:
        self.queries: list[Query] = []

    async def search(self, query, *, actor, timeout_s, explain, on_done) -> FusedResults:
        self.queries.append(query)
        first, second = Ranked(1.0, {"a": 1}), Ranked(0.8, {"a": 2})
        dated = Result("Whales", "https://www.a.org/1", "Text.", "2026-03-02", first)
        results = dated, Result("No date", "https://8.8.8.8/", ranked=second)
        found = FusedResults(results, ("A note.",), self.coverage)
        if not explain:
            return found
        why = WebExplanation(0.2, [ProviderVote("a", 1, 0.2)])
        left_out = (WebLeftOut("https://b.org/", "Other", "limit", why),)
        return replace(found, why=(why, why), left_out=left_out)


class FakeExtractor:
    """One page of text, all others missing."""

    async def extract(self, urls, *, timeout_s, actor, on_done):
        missing = [ExtractedPage(url, "", "http_404", "Gone.") for url in urls[1:]]
        return [ExtractedPage(urls[0], "text", "ok", None, urls[0]), *missing]


@pytest.fixture
def metasearch():
    return FakeMetasearch()


@pytest.fixture
def tools(metasearch):
    return WebTools(metasearch, FakeExtractor(), costly=False)


async def test_providers_are_shown_where_one_failed_or_is_stale(tools, metasearch):
    """Otherwise the response has the fields of its specification only."""
    whole, empty = SourceCoverage.of_results("a", 2), SourceCoverage.of_results("b", 0)
    for coverage in (
        (whole,),
        (whole, empty),
        (SourceCoverage.of_results("a", 2, stale=True), empty),
    ):
        metasearch.coverage = coverage
        reply = await tools.web_search(CALL, WebSearch(query="whales"))
        shown = msgspec.to_builtins(reply.value)
        assert reply.meta[COVERAGE] == msgspec.to_builtins(list(coverage))
        assert ("coverage" in shown) == (coverage[0] is not whole)
    assert [part["state"] for part in shown["coverage"]] == ["stale", "empty"]


async def test_result_of_a_search(tools):
    """Unknown dates are left out; the query is shown as it was given."""
    reply = await tools.web_search(CALL, WebSearch(query=" big  whales "))
    assert msgspec.to_builtins(reply.value) == {
        "query": " big  whales ",
        "results": [
            {"title": "Whales", "url": "https://www.a.org/1", "snippet": "Text.",
             "publishedAt": "2026-03-02", "source": "a.org"},
            {"title": "No date", "url": "https://8.8.8.8/", "snippet": "", "source": "8.8.8.8"},
        ],
        "notes": ["A note."],
    }  # fmt: skip
    assert reply.meta[RANKING] == [
        {"score": 1.0, "positions": {"a": 1}},
        {"score": 0.8, "positions": {"a": 2}},
    ]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("web_search", WebSearch),
        ("web_search_advanced", WebSearchAdvanced),
        ("web_search_news", WebSearchNews),
    ],
)
async def test_explained_search(tools, metasearch, name, kind):
    """Each result has its votes, and the coverage is there also where all gave fresh results."""
    metasearch.coverage = (SourceCoverage.of_results("a", 2),)
    search = getattr(tools, name)
    plain = msgspec.to_builtins((await search(CALL, kind(query="whales"))).value)
    shown = msgspec.to_builtins((await search(CALL, kind(query="whales", explain=True))).value)
    why = {"score": 0.2, "votes": [{"provider": "a", "rank": 1, "score": 0.2}]}
    assert [row.pop("explanation") for row in shown["results"]] == [why, why]
    assert shown.pop("left_out") == [
        {"url": "https://b.org/", "title": "Other", "reason": "limit", "explanation": why}
    ]
    assert [part["source"] for part in shown.pop("coverage")] == ["a"]
    assert shown == plain


async def test_each_search_has_its_query(tools, metasearch):
    """With the filters that it takes."""
    await tools.web_search(CALL, WebSearch(query=" big  whales "))
    await tools.web_search_advanced(
        CALL,
        WebSearchAdvanced(
            query="x", max_results=3, time_range="month", include_domains=["A.org"],
            exclude_domains=["*.b.org"],
        ),
    )  # fmt: skip
    await tools.web_search_news(CALL, WebSearchNews(query="x", time_range="d"))
    assert metasearch.queries == [
        Query("big whales", WebSearch(query="x").max_results),
        Query("x", 3, time="m", include_domains=("a.org",), exclude_domains=("b.org",)),
        Query("x", WebSearchNews(query="x").max_results, time="d", topic="news"),
    ]


async def test_items_of_an_extraction(tools):
    """A message only where there is no content."""
    reply = await tools.web_extract_content(CALL, WebExtract(urls=["http://a", "http://b"]))
    found, missing = msgspec.to_builtins(reply)["items"]
    assert found.pop("content").split("\n")[1] == "text"
    assert found == {
        "url": "http://a", "status": "ok", "start": 0, "end": 4, "chars": 4,
        "content_hash": hashlib.sha256(b"text").hexdigest(),
    }  # fmt: skip
    assert missing == {"url": "http://b", "content": "", "status": "http_404", "message": "Gone."}


@pytest.mark.parametrize("most", [99, 1_000_001])
def test_budget_outside_its_limits_is_refused(most):
    """The name is the same as in every other tool."""
    with pytest.raises(msgspec.ValidationError, match=r"\$.max_tokens"):
        msgspec.convert({"urls": ["http://a"], "max_tokens": most}, WebExtract)


@pytest.mark.parametrize("costly", [False, True])
def test_searches_cost_money_where_a_provider_does(costly):
    """Extraction does not."""
    tools = build_worker(None, None, costly=costly).catalog.tools
    searches = {"web_search", "web_search_advanced", "web_search_news"}
    assert {tool.name for tool in tools if tool.costly} == (searches if costly else set())
    assert all(tool.required_roles == (ROLE,) and tool.in_prompts for tool in tools)


TIME_RANGES = {
    "": "", "d": "d", "day": "d", "w": "w", "week": "w", "m": "m", "month": "m", "y": "y",
    "year": "y",
}  # fmt: skip


@pytest.mark.parametrize("name", ["web_search_advanced", "web_search_news"])
@pytest.mark.parametrize("given", [*TIME_RANGES, "W", "weeks", " d", "decade"])
def test_time_ranges_are_those_of_the_schema(name, given):
    """The letters of the specification and their words; empty is as omitted. Other ones are refused
    by whoever checks the arguments, with no other rule in the worker."""
    tools = {tool.name: tool for tool in build_worker(None, None).catalog.tools}
    kind = {"web_search_advanced": WebSearchAdvanced, "web_search_news": WebSearchNews}[name]
    arguments = {"query": "x", "timeRange": given}
    fits = jsonschema_rs.Draft202012Validator(tools[name].input_schema).is_valid(arguments)
    assert fits is (given in TIME_RANGES)
    if fits:
        assert read_time_range(msgspec.convert(arguments, kind).time_range) == TIME_RANGES[given]
    else:
        with pytest.raises(msgspec.ValidationError, match="timeRange"):
            msgspec.convert(arguments, kind)


def test_no_choice_of_a_schema_is_an_empty_text():
    """Clients refuse the whole list for one in an `enum`."""
    schemas = [tool.input_schema for tool in build_worker(None, None).catalog.tools]
    choices = [
        one.get("enum", ()) for level in levels(schemas) for one in level if type(one) is dict
    ]
    assert all("" not in found for found in choices)


def test_domains_are_as_many_as_the_schema_says():
    """The edge refuses more, by the same schema."""
    (tool,) = (t for t in build_worker(None, None).catalog.tools if t.name == "web_search_advanced")
    for field in ("includeDomains", "excludeDomains"):
        assert tool.input_schema["properties"][field]["maxItems"] == 100
        for count, said in ((100, None), (101, field)):
            given = {"query": "x", field: ["a.org"] * count}
            with pytest.raises(msgspec.ValidationError, match=said) if said else nullcontext():
                msgspec.convert(given, WebSearchAdvanced)


@pytest.mark.parametrize(
    "arguments", [{"query": "x", "maxResults": 11}, {"query": "x", "max_results": 2}, {}]
)
def test_arguments_have_limits_and_known_names(arguments):
    """They are checked before the tool runs."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(arguments, WebSearch)


@pytest.mark.parametrize("urls", [["[]"], ['["a","b","c","d","e","f"]']])
def test_no_url_and_too_many_are_refused(urls):
    """The message names the limit."""
    with pytest.raises(Fault, match="at least one and at most 5") as caught:
        read_urls(urls)
    assert caught.value.code == "invalid_argument"


def test_array_in_a_string_stands_for_its_elements():
    """Some models send it so; other text is a URL as it is."""
    assert read_urls([' ["http://a/", " http://b/ "] ', "http://c/"]) == [
        "http://a/", "http://b/", "http://c/",
    ]  # fmt: skip
    assert read_urls(['["http://a/\\ud83d"]']) == ["http://a/?"]  # half a character has no bytes
    assert read_urls(["[not json"]) == ["[not json"]
    assert read_urls(["[1]"]) == ["[1]"]


@pytest.mark.parametrize("excess", [-20, -10, -5, 0, 1, 20])
def test_a_long_url_is_cut_so_that_no_other_part_is_read(excess):
    """A cursor of a page whose own URL is not too long is valid; a number is never cut."""
    url = "http://a.org/".ljust(MAX_URL_CHARS + excess, "x")
    (found,) = read_urls([f"{url}#searchbus-start=1234567"])
    if excess > 0:
        assert (len(found), start_of(found)) == (MAX_URL_CHARS + 1, (found, 0))
    else:
        assert start_of(found) == (url, 1234567)
    (found,) = read_urls([f"{url}#searchbus-start={'1' * 100}"])
    assert (len(found), start_of(found)) == (MAX_URL_CHARS + 1, (found, 0))

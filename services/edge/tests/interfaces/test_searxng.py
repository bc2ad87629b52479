"""SearXNG's search API: requests, answers."""

from __future__ import annotations

import msgspec
import pytest

from searchbus_contracts import ErrorCode, Fault
from searchbus_edge.interfaces.searxng import SearxngSearch, read_search, search


def read(**form: str) -> SearxngSearch:
    return read_search({"q": "whales", "format": "json", **form})


def test_defaults():
    """The first page of general results, of any time."""
    assert read() == SearxngSearch(query="whales")


def test_parameters():
    """Of those that the tools have."""
    assert read(
        pageno="2", categories="news, general", time_range="month",
        engines="google, bing", language="all", safesearch="0",
    ) == SearxngSearch(
        query="whales", page=2, categories=("news", "general"), time_range="m",
        engines=("google", "bing"), notes=("engines is not applied: all providers answer.",),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("form", "categories"),
    [
        ({"categories": ""}, ("general",)),
        ({"categories": "news,news"}, ("news",)),
    ],
)
def test_categories_of_a_form(form, categories):
    """Each once; general where there is none."""
    assert read(**form).categories == categories


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"q": ""}, "No query"),
        ({"pageno": "0"}, 'Invalid value "0" for parameter pageno'),
        ({"pageno": "x"}, 'Invalid value "x" for parameter pageno'),
        ({"pageno": "9" * 5000}, "for parameter pageno"),
        ({"time_range": "hour"}, 'Invalid value "hour" for parameter time_range'),
        ({"language": "deutsch"}, 'Invalid value "deutsch" for parameter language'),
        ({"safesearch": "3"}, 'Invalid value "3" for parameter safesearch'),
        ({"safesearch": ""}, "Empty safesearch"),
    ],
)
def test_wrong_value_is_refused(form, message):
    """In SearXNG's words."""
    with pytest.raises(Fault) as raised:
        read(**form)
    assert raised.value.code == ErrorCode.INVALID_ARGUMENT
    assert message in raised.value.failure.message


@pytest.mark.parametrize("form", [{"format": "csv"}, {"format": "html"}, {"format": ""}])
def test_other_formats_are_forbidden(form):
    """As with an instance that allows JSON only."""
    with pytest.raises(Fault) as raised:
        read(**form)
    assert raised.value.code == ErrorCode.FORBIDDEN


@pytest.mark.parametrize(
    ("form", "note"),
    [
        ({"language": "de-DE"}, "language=de-DE is not applied"),
        ({"safesearch": "2"}, "safesearch=2 is not applied"),
        ({"categories": "images,news"}, "ignored: images."),
    ],
)
def test_what_is_not_applied_is_named(form, note):
    """A note of the answer says it."""
    (found,) = read(**form).notes
    assert note in found


def test_unknown_parameters_are_ignored():
    """As SearXNG does."""
    assert read(theme="simple", results_on_new_tab="1", image_proxy="true") == read()


@pytest.mark.parametrize(
    ("form", "notes"),
    [
        # Open WebUI
        ({"pageno": "1", "safesearch": "1", "language": "all", "time_range": "", "categories": "",
          "theme": "simple", "image_proxy": "0"}, 1),
        # LibreChat
        ({"pageno": "1", "categories": "general", "language": "all", "safesearch": "0",
          "engines": "google,bing,duckduckgo"}, 1),
        # Vane
        ({"engines": "arxiv", "language": "en", "pageno": "1"}, 2),
        # LangChain
        ({"language": "en"}, 1),
    ],
)  # fmt: skip
def test_requests_of_front_ends_are_served(form, notes):
    """With their usual parameters; what is not applied is noted."""
    found = read(**form)
    assert (found.categories, found.page, len(found.notes)) == (("general",), 1, notes)


async def found(tools, **form):
    request = read_search({"q": "whales", "format": "json", **form})
    return msgspec.to_builtins(await search(tools, request))


def urls(answer) -> list[int]:
    return [int(result["url"][9:-9]) for result in answer["results"]]


async def test_answer_has_the_fields_of_the_api(tools):
    """And what is added to them: that the text is of strangers."""
    del tools.rows["web_search_advanced"][1:]
    tools.rows["web_search_advanced"][0]["publishedAt"] = "2026-03-02"
    tools.rank((0.8, {"ddg": 3, "brave": 1}))
    assert await found(tools) == {
        "query": "whales", "number_of_results": 0, "answers": (), "corrections": (),
        "infoboxes": (), "suggestions": (), "unresponsive_engines": [], "untrusted": True,
        "results": [
            {"title": "Page 1", "url": "https://p1.example/", "content": "Text 1.",
             "publishedDate": "2026-03-02", "engine": "brave", "engines": ["brave", "duckduckgo"],
             "positions": [1, 3], "score": 0.8, "category": "general",
             "parsed_url": ("https", "p1.example", "/", "", "", ""), "template": "default.html"},
        ],
    }  # fmt: skip


async def test_result_without_a_ranking_names_the_toolset(tools):
    """And its place in the answer."""
    answer = await found(tools)
    assert [r["engines"] for r in answer["results"][:2]] == [["web"], ["web"]]
    assert [r["positions"] for r in answer["results"][:2]] == [[1], [2]]
    assert [r["score"] for r in answer["results"][:2]] == [1.0, 0.5]


async def test_pages_share_the_results_without_a_gap(tools):
    """None is shown twice, also where a longer search ranks others first; then there are no more."""
    pages = [urls(await found(tools, pageno=str(n))) for n in (1, 2, 3, 4)]
    assert [len(page) for page in pages] == [10, 10, 5, 0]
    assert sorted(pages[0] + pages[1] + pages[2]) == list(range(1, 26))
    assert urls(await found(tools, pageno="2", categories="news")) == list(range(11, 21))


async def test_time_range_reaches_the_tool(tools):
    """Which has a time limit of its own."""
    await found(tools, time_range="week", categories="news")
    arguments = {"query": "whales", "maxResults": 10, "timeRange": "w"}
    assert tools.calls == [("web_search_news", arguments, None)]


async def test_two_categories_are_one_list_by_score(tools):
    """A page of both is one result."""
    tools.rows["web_search_news"] = [
        {"title": "News", "url": "https://p99.example/"}, tools.rows["web_search_advanced"][0],
    ]  # fmt: skip
    answer = await found(tools, categories="general,news")
    assert urls(answer) == [1, 99, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert [r["category"] for r in answer["results"][:2]] == ["general", "news"]


async def test_engines_that_did_not_answer_are_named(tools):
    """Each with its reason; also those that the request asks for and that there are not."""
    tools.cover(
        {"source": "ddg", "state": "answered", "results": 3},
        {"source": "brave", "state": "empty"},
        {"source": "tavily", "state": "blocked", "code": "upstream_limited", "message": "m"},
        {"source": "searxng", "state": "failed", "code": "upstream_failed", "message": "Down."},
        {"source": "old", "state": "stale", "results": 2},
    )
    tools.notes = ["searxng failed."]
    answer = await found(tools, engines="google, duckduckgo", language="de")
    assert answer["unresponsive_engines"] == [
        ("old", "fails now; its results are from before"),
        ("searxng", "Down."),
        ("tavily", "too many requests"),
        ("google", "no such engine here"),
    ]
    assert answer["notes"] == [
        "language=de is not applied: results are of any language.",
        "engines is not applied: all providers answer.",
        "searxng failed.",
    ]


async def test_search_whose_engines_all_fail_is_an_empty_answer(tools):
    """As SearXNG has it: with the reason beside."""
    tools.failures["web_search_advanced"] = Fault(ErrorCode.UPSTREAM_BLOCKED, "All refuse.")
    answer = await found(tools)
    assert answer["results"] == []
    assert answer["unresponsive_engines"] == [("web", "access denied")]
    assert answer["notes"] == ["All refuse."]


@pytest.mark.parametrize("code", ["forbidden", "rate_limited", "unavailable", "internal"])
async def test_other_failures_are_errors(tools, code):
    """An empty answer would hide them."""
    tools.failures["web_search_advanced"] = Fault(code, "No.")
    with pytest.raises(Fault):
        await found(tools)


async def test_result_whose_address_is_none_harms_no_other(tools):
    """All of it stands in place of the path."""
    tools.rows["web_search_advanced"][0]["url"] = "http://[x"
    answer = await search(tools, read_search({"q": "x", "format": "json"}))
    parsed = [result.parsed_url[2] for result in answer.results]
    assert parsed[:2] == ["http://[x", "/"]

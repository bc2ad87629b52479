"""Calls to the tools of the toolset web."""

from __future__ import annotations

import pytest

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.coverage import Ranked
from searchbus_edge.interfaces.web_tools import read_pages, search_web
from searchbus_edge.tools.reply import Reply


async def test_results_have_their_ranking(tools):
    """From the reply's metadata, in the order of the results."""
    tools.rank((1.0, {"brave": 1}), (0.5, {"ddg": 2}))
    found = await search_web(tools, "web_search_news", {"query": "x", "maxResults": 2})
    assert [row.ranked for row in found.results] == [
        Ranked(1.0, {"brave": 1}),
        Ranked(0.5, {"ddg": 2}),
    ]


async def test_ranking_that_does_not_fit_is_left_out(tools):
    """A worker of another version may give none, or another number."""
    tools.rank((1.0, {"brave": 1}))
    found = await search_web(tools, "web_search_news", {"query": "x", "maxResults": 2})
    assert [row.ranked for row in found.results] == [None, None]


async def test_coverage_of_the_metadata_is_complete(tools):
    """The answer itself names providers only where one is missing."""
    tools.cover({"source": "ddg", "state": "answered", "results": 3})
    found = await search_web(tools, "web_search_news", {"query": "x", "maxResults": 2})
    assert [(part.source, part.state) for part in found.coverage] == [("ddg", "answered")]


async def test_five_pages_are_one_call(tools):
    """The tool takes no more; the order stays."""
    urls = [f"https://p{n}.example/" for n in range(12)]
    tools.texts = dict.fromkeys(urls[:11], "text")
    pages = await read_pages(tools, urls, max_tokens=500, timeout_s=3.0)
    assert [page.url for page in pages] == urls
    assert [len(arguments["urls"]) for _, arguments, _ in tools.calls] == [5, 5, 2]
    assert {(arguments["max_tokens"], time) for _, arguments, time in tools.calls} == {(500, 3.0)}
    assert [page.status for page in pages] == ["ok"] * 11 + ["http_404"]


async def test_reply_without_content_is_a_failure():
    """Never an empty answer."""

    async def silent(tool, arguments, *, timeout_s=None):
        return Reply()

    with pytest.raises(Fault) as raised:
        await search_web(silent, "web_search_news", {})
    assert raised.value.code == ErrorCode.UPSTREAM_FAILED

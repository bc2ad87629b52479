"""web_find and engines: filters, pages, boosts, and what failed."""

from __future__ import annotations

import base64

import msgspec
import pytest

from searchbus_contracts import Fault
from searchbus_contracts.engines import ENGINES

ALL = ("ddg", "ddg_news", "wikipedia", "marginalia", "mojeek", "brave_page")


async def find(web, query: str = "whales", **arguments):
    return await web.call("web_find", toolset="engines", query=query, **arguments)


async def refused(web, **arguments) -> Fault:
    with pytest.raises(Fault) as caught:
        await find(web, **arguments)
    return caught.value


def states(found) -> dict[str, str]:
    return {part["source"]: part["state"] for part in found["coverage"]}


async def test_engines_are_fused_and_named(web):
    """DuckDuckGo and those open to programs, unless the operator or the caller names others."""
    await web.start()
    found = await find(web)
    assert states(found) == {"ddg": "answered", "wikipedia": "answered", "marginalia": "answered"}
    assert len(found["results"]) == 10
    (shared,) = [r for r in found["results"] if "shared" in r["url"]]
    assert shared["engines"] == {"wikipedia": 1, "marginalia": 1}
    found = await find(web, engines=["marginalia"])
    assert states(found) == {"marginalia": "answered"}
    fault = await refused(web, engines=["mojeek"])
    assert (fault.code, "Give some of: ddg" in fault.failure.message) == ("invalid_argument", True)


async def test_pages_have_every_result_once(web):
    """Over all pages of all engines; the engines are asked once for each page."""
    await web.start(web_engines=("mojeek", "brave_page"))
    urls, cursor, calls = [], {}, 0
    while True:
        found = await find(web, maxResults=7, **cursor)
        urls += [result["url"] for result in found["results"]]
        calls += 1
        assert len(found["results"]) <= 7
        if "cursor" not in found:
            break
        cursor = {"cursor": found["cursor"]}
    assert len(urls) == len(set(urls)) == 3 * 19
    assert len(web.ddg) == 6
    assert calls <= 3 * 3


async def test_duckduckgo_has_further_pages(web):
    """Each as the end of a longer list."""
    await web.start()
    first = await find(web, engines=["ddg"])
    second = await find(web, engines=["ddg"], cursor=first["cursor"])
    urls = {r["url"] for r in [*first["results"], *second["results"]]}
    assert len(urls) == 20
    assert [request.limit for request in web.ddg] == [10, 20]


@pytest.mark.parametrize("cursor", ["x", "eA", "A" * 4000, "é", base64.b64encode(
    msgspec.msgpack.encode([b"12345678", 99, b""])).decode()])  # fmt: skip
async def test_foreign_cursor_is_refused(web, cursor):
    """And so is one of other arguments."""
    await web.start(web_engines=("mojeek",))
    assert (await refused(web, cursor=cursor)).code == "invalid_argument"
    mine = (await find(web))["cursor"]
    for other in ({"query": "cats"}, {"region": "de"}, {"engines": ["mojeek"]}):
        assert (await refused(web, cursor=mine, **other)).code == "invalid_argument"


async def test_filters_reach_the_engines_that_have_them(web):
    """A note names those that ignore one; strict and the time range are never ignored."""
    await web.start(web_engines=ALL)
    found = await find(web, region="CH", language="fr", safeSearch="moderate")
    by_name = {getattr(request, "engine", "ddg"): request for request in web.ddg}
    assert by_name.keys() == set(ALL) - {"ddg_news"}
    assert by_name["ddg"].region == "ch-fr"
    assert (by_name["mojeek"].region, by_name["mojeek"].language) == ("ch", "fr")
    assert {request.safe for request in by_name.values()} == {"moderate"}
    assert "wikipedia ignores: region, safe." in found["notes"]
    found = await find(web, includeDomains=["example.net"], engines=["wikipedia", "mojeek"])
    assert found["notes"] == ["wikipedia ignores: domains."]
    web.ddg.clear()
    found = await find(web, safeSearch="strict", timeRange="w")
    assert {getattr(request, "engine", "ddg") for request in web.ddg} == {
        "ddg", "mojeek", "brave_page",
    }  # fmt: skip
    assert {name for name, state in states(found).items() if state == "left_out"} == {
        "wikipedia", "marginalia",
    }  # fmt: skip
    fault = await refused(web, engines=["wikipedia"], safeSearch="strict")
    assert "wikipedia: It has no safe search." in fault.failure.message


async def test_news_are_asked_of_news_engines_only(web):
    """Newest first, as with web_search_news."""
    await web.start()
    found = await find(web, topic="news")
    assert states(found) == {"ddg_news": "answered"}
    assert all(result["publishedAt"] for result in found["results"])


async def test_engine_that_fails_is_named(web):
    """The others' results stay; where all failed, the call fails."""
    await web.start(web_engines=("mojeek", "brave_page"))
    found = await find(web, query="whales no-mojeek")
    assert states(found) == {"mojeek": "blocked", "brave_page": "answered"}
    assert any("mojeek refuses" in note for note in found["notes"])
    fault = await refused(web, query="nothing no-mojeek")
    assert (fault.code, fault.failure.retry_after_ms) == ("upstream_blocked", 9000)
    found = await find(web, query="nothing")
    assert (found["results"], states(found)) == (
        [], {"mojeek": "empty", "brave_page": "empty"},
    )  # fmt: skip


async def test_boosts_move_domains(web):
    """Up and down; what a provider ranked stays what it was."""
    await web.start(web_engines=("mojeek", "brave_page"))
    boosts = [{"domain": "mojeek8.example.net", "factor": 10}, {"domain": "shared.example.org", "factor": 0.1}]  # fmt: skip
    found = await find(web, boostDomains=boosts, maxResults=25)
    hosts = [result["url"].split("/")[2] for result in found["results"]]
    assert hosts[0] == "mojeek8.example.net"
    assert hosts.index("shared.example.org") == 3, "behind the three best of the other domain"
    assert found["results"][0]["engines"] == {"mojeek": 10}
    for wrong in ([{"domain": "a b", "factor": 2}], [boosts[0], boosts[0]], [{"domain": "a.org", "factor": 99}]):  # fmt: skip
        assert (await refused(web, boostDomains=wrong)).code == "invalid_argument"


async def test_list_of_engines_has_their_states_and_terms(web):
    """Also of those that are off, and of keyed providers without a key."""
    await web.start(tavily_api_keys=("k",))
    found = await web.call("engines", toolset="engines")
    by_name = {entry["name"]: entry for entry in found["engines"]}
    assert by_name.keys() >= {*ENGINES, "tavily", "brave", "searxng"}
    shown = {name: entry["state"] for name, entry in by_name.items()}
    assert shown.items() >= {
        "tavily": "ready", "brave": "off", "searxng": "off", "ddg": "ready", "ddg_news": "unused",
        "wikipedia": "unused", "marginalia": "cooling", "mojeek": "off", "brave_page": "off",
    }.items()  # fmt: skip
    assert by_name["marginalia"]["retryAfterMs"] == 9000
    assert "robots.txt" in by_name["mojeek"]["terms"]


@pytest.mark.parametrize("tool", ["web_find", "engines"])
async def test_role_is_required(web, tool):
    """In the worker as well."""
    await web.start()
    with pytest.raises(Fault) as caught:
        await web.call(
            tool, toolset="engines", roles=(), **({"query": "x"} if tool == "web_find" else {})
        )
    assert caught.value.code == "forbidden"

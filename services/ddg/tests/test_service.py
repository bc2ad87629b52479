"""A whole worker against the fake DuckDuckGo: what callers get, and what the upstream receives."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_contracts import Fault
from searchbus_contracts.web import WebSearchReply, WebSearchRequest
from searchbus_ddg.settings import DdgSettings
from searchbus_testing import until


async def test_results_of_one_page_in_the_specifications_form(fleet):
    """Ten rows without the ad, links decoded, from one request."""
    await fleet.start_worker()
    reply = await fleet.call("web_search", query="cats & dogs")
    text = reply.content[0].text
    assert text.startswith(
        '## Web Search Results for "cats & dogs"\n\n### 1. cats & dogs & more, number 0\n'
    )
    assert "**URL:** http://site0.example.org/a%2Fb?q=cats%20%26%20dogs&n=0" in text
    assert text.endswith("---\n\n_Source: DuckDuckGo (10 results)_")
    assert "Buy it" not in text
    assert reply.structured["results"][0]["published_at"] == "2026-03-02T00:00:00Z"
    assert len(fleet.fake.requests) == 1


@pytest.mark.parametrize(
    ("wanted", "requests"), [(1, 1), (7, 1), (10, 1), (11, 2), (25, 3), (30, 3)]
)
async def test_max_results_is_exact_over_pages(fleet, wanted, requests):
    """The next pages by the page's own form, else the fake would refuse."""
    await fleet.start_worker()
    reply = await fleet.call("web_search", query="cats", max_results=wanted)
    urls = [result["url"] for result in reply.structured["results"]]
    assert len(urls) == len(set(urls)) == wanted
    assert len(fleet.fake.requests) == requests
    assert fleet.fake.challenges == 0


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ("cats empty202", "upstream_blocked", "does not mean that there are no results"),
        ("cats http429", "upstream_limited", "Try again in"),
        ("cats http500", "upstream_failed", "HTTP 500"),
        ("", "invalid_query", "empty"),
        ("x" * 500, "invalid_query", "499"),
    ],
)
async def test_failures_are_typed_and_never_empty(fleet, query, code, said):
    """And say what to do."""
    await fleet.start_worker()
    with pytest.raises(Fault) as caught:
        await fleet.search(query)
    assert caught.value.code == code
    assert said in caught.value.failure.message
    if code in ("upstream_blocked", "upstream_limited"):
        assert caught.value.failure.retry_after_ms > 1000


@pytest.mark.parametrize("query", ["drip cats", "hang cats"])
async def test_slow_upstream_ends_by_the_deadline(fleet, query):
    """The caller gets an error."""
    await fleet.start_worker()
    with pytest.raises(Fault) as caught:
        await fleet.call("web_search", timeout_s=1.5, query=query)
    assert caught.value.code in ("upstream_failed", "deadline_exceeded")


async def test_explicit_no_results(fleet):
    """The one case in which a reply is empty."""
    await fleet.start_worker()
    assert (await fleet.search("noresult")) == (
        '## Web Search Results for "noresult"\n\nNo results found.\n\n_Source: DuckDuckGo_'
    )


async def test_unreadable_html_falls_back_to_lite_and_cut_pages_yield_complete_rows(fleet):
    """After a new design of one endpoint, and after a connection that broke."""
    await fleet.start_worker()
    assert "Lite text 3." in await fleet.search("garbage cats")
    cut = (await fleet.call("web_search", query="cutoff cats")).structured["results"]
    assert 3 <= len(cut) <= 9
    reset = (await fleet.call("web_search", query="reset cats")).structured["results"]
    assert 3 <= len(reset) <= 9


async def test_bang_is_quoted(fleet):
    """It is searched for and not followed."""
    await fleet.start_worker()
    await fleet.search("!g cats")
    assert fleet.fake.requests[0][2] == "'!g' cats"


async def test_stale_results_are_returned_while_it_refuses(fleet):
    """They are marked as stale."""
    await fleet.start_worker(ddg_cache_ttl_s=0.0, ddg_challenge_rest_s=600)
    fresh = await fleet.search("cats")
    fleet.fake.blocked = {"127.0.0.31"}
    stale = await fleet.call("web_search", query="cats")
    assert stale.structured["stale"]
    assert (
        "_Note: DuckDuckGo cannot be reached now; this is its answer of 20" in stale.content[0].text
    )
    assert stale.content[0].text.splitlines()[2] == fresh.splitlines()[2]
    with pytest.raises(Fault) as caught:
        await fleet.search("dogs")
    assert caught.value.code == "upstream_blocked"


async def test_callers_take_turns_and_hopeless_waits_fail_immediately(fleet):
    """One caller's many requests do not delay another's; a wait past the deadline is refused."""
    await fleet.start_worker(ddg_interval_s=0.2, ddg_min_interval_s=0.2)
    flood = [
        asyncio.create_task(fleet.call("web_search", 20.0, "greedy", query=f"g{i}"))
        for i in range(40)
    ]
    await until(lambda: len(fleet.fake.requests) > 0)
    await fleet.call("web_search", 60.0, "modest", query="modest")
    assert [query for _, _, query in fleet.fake.requests].index("modest") < 20
    with pytest.raises(Fault) as caught:
        await fleet.call("web_search", 2.0, "greedy", query="late")
    assert caught.value.code == "overloaded"
    for task in flood:
        task.cancel()
    await asyncio.gather(*flood, return_exceptions=True)


async def test_caller_that_leaves_ends_the_upstream_request(fleet):
    """Nobody waits for the reply any more."""
    await fleet.start_worker()
    fleet.fake.latency_s = 5.0
    leaving = asyncio.create_task(fleet.search("cats"))
    await until(lambda: fleet.fake.in_flight == 1)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    fleet.fake.latency_s = 0.0
    await asyncio.sleep(0.3)
    assert "10 results" in await fleet.search("cats")


async def test_instant_answers(fleet):
    """Found, ambiguous, none, failing; equal requests are sent once."""
    await fleet.start_worker()
    rust = (await fleet.call("instant_answer", query="rust")).content[0].text
    assert "### Abstract\nRust is a programming language." in rust
    assert "- **Cargo** - The Rust package manager" in rust
    mercury = (await fleet.call("instant_answer", query="mercury")).content[0].text
    assert "#### Astronomy\n- **Mercury (planet)** - The smallest." in mercury
    nothing = (await fleet.call("instant_answer", query="xyzzy")).content[0].text
    assert "No instant answer available for this query." in nothing
    with pytest.raises(Fault) as caught:
        await fleet.call("instant_answer", query="http500")
    assert caught.value.code == "upstream_failed"
    count = len(fleet.fake.requests)
    await fleet.call("instant_answer", query="rust")
    assert len(fleet.fake.requests) == count


async def test_typed_endpoint_for_other_services(fleet):
    """Region, time and safe search reach the upstream; the reply names its provider."""
    await fleet.start_worker()
    reply = await fleet.bus.request(
        fleet.bus.subjects.endpoint("ddg", "search"),
        WebSearchRequest(query="cats", limit=4, region="de-de", time="w", safe="strict"),
        WebSearchReply, service="ddg", timeout_s=10,
    )  # fmt: skip
    assert (len(reply.results), reply.provider, reply.stale, reply.note) == (
        4,
        "duckduckgo",
        False,
        None,
    )


def test_every_kind_of_egress_is_accepted():
    """Direct, an own address, proxies."""
    egresses = ("direct", "bind:10.0.0.7", "bind:2001:db8::1", "http://p:3128", "socks5://p:1080")
    assert DdgSettings(ddg_egress=egresses).ddg_egress == egresses


@pytest.mark.parametrize(
    ("egresses", "said"),
    [
        (("ftp://user:secret@proxy",), "not 'ftp…'"),
        (("bind:eth0",), "not 'bind…'"),
        (("direct", "direct"), "listed twice"),
        ((), "at least 1"),
    ],
)
def test_faults_name_the_remedy_and_no_credentials(egresses, said):
    """Of a proxy's URL only the scheme is shown."""
    with pytest.raises(ValueError) as caught:
        DdgSettings(ddg_egress=egresses)
    message = str(caught.value).partition("input_value")[0]
    assert said in message
    assert "secret" not in message

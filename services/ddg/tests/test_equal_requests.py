"""Equal requests at the same time, of an upstream that is silent; on the virtual clock."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from tests.simulation.world import simulated

from searchbus_contracts import Actor
from searchbus_contracts.web import WebSearchRequest
from searchbus_ddg.duckduckgo import DuckDuckGo
from searchbus_ddg.egress import Egress
from searchbus_ddg.search import PageClient, ScrapedSearch
from searchbus_ddg.settings import DdgSettings
from searchbus_upstream import Pace, SharedCache, UpstreamTimeoutError


class Silent:
    """An upstream that never answers."""

    sent = 0

    async def send(self, request, *, timeout_s, max_bytes):
        self.sent += 1
        await asyncio.sleep(timeout_s)
        raise UpstreamTimeoutError("no answer")


class Timed:
    """A call whose time passes."""

    actor = Actor(subject="a")

    def __init__(self, timeout_s: float) -> None:
        self._end_s = asyncio.get_running_loop().time() + timeout_s

    @property
    def remaining_s(self) -> float:
        return self._end_s - asyncio.get_running_loop().time()


@pytest.mark.parametrize("tool", ["search", "instant"])
@simulated
async def test_equal_requests_ask_a_silent_upstream_one_after_the_other(tool):
    """Whoever waited has less time left than the one who asked: a request would be lost as well."""
    client = Silent()
    egress = Egress("test", client, Pace(0.0))
    pages = PageClient(client, html_url="https://html.example/", lite_url="https://x.example/")
    duckduckgo = DuckDuckGo(
        None, egress, ScrapedSearch(egress, pages), SimpleNamespace(key="own"), SharedCache(),
        DdgSettings(),
    )  # fmt: skip

    async def ask(after_s: float):
        await asyncio.sleep(after_s)
        if tool == "search":
            return await duckduckgo.search(Timed(9.0), WebSearchRequest(query="cats"))
        return await duckduckgo.instant(Timed(9.0), "cats")

    calls = (ask(0.5 * number) for number in range(80))
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {fault.code for fault in outcomes} == {"deadline_exceeded"}
    assert client.sent <= 6

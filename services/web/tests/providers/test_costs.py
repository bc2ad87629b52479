"""What paid requests count, and which of them are sent again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from searchbus_bus.worker.toolset import counting
from searchbus_contracts import Actor, Fault
from searchbus_testing import until
from searchbus_upstream import HttpReply, UpstreamTimeoutError, UpstreamUnreachableError
from searchbus_web.providers.api import ApiProvider
from searchbus_web.providers.base import Query
from searchbus_web.providers.searxng import SearXNG
from searchbus_web.providers.tavily import Tavily

LATE, BROKEN = UpstreamTimeoutError("x"), UpstreamUnreachableError("ReadError")
ROWS = b'{"results": [], "usage": {"credits": 2}}'


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    """Retries follow at once."""

    async def sleep(seconds, _sleep=asyncio.sleep):
        await _sleep(0)

    monkeypatch.setattr("searchbus_upstream.retries.asyncio.sleep", sleep)


async def search(provider: ApiProvider, timeout_s: float = 60.0) -> tuple[str, float]:
    """The code of a search, and what it counts for its caller."""
    call = SimpleNamespace(credits=0.0)
    try:
        with counting(call):
            actor = Actor(subject="a")
            await provider.search(Query("cats", 5), actor=actor, timeout_s=timeout_s)
    except Fault as fault:
        assert fault.failure.credits == call.credits
        return fault.code, call.credits
    return "ok", call.credits


@pytest.mark.parametrize(
    ("reply", "code", "credits"),
    [
        (LATE, "upstream_failed", 1.0),
        (BROKEN, "upstream_failed", 1.0),
        (HttpReply(200, b"nonsense"), "upstream_failed", 1.0),
        (HttpReply(200, ROWS[:20], truncated=True), "upstream_failed", 1.0),
        (HttpReply(500, b""), "upstream_failed", 0.0),
        (HttpReply(504, b"<html>"), "upstream_failed", 0.0),
        (HttpReply(200, ROWS), "ok", 2.0),
    ],
)
async def test_a_paid_request_is_sent_once(fake_client, reply, code, credits):
    """The provider may bill what it worked for: without a readable reply that is one credit."""
    client = fake_client(reply, ROWS, ROWS)
    provider = Tavily(client, "https://x.example", ["key"])
    assert await search(provider) == (code, credits)
    assert (len(client.requests), provider._keys[0].credits) == (1, credits)


@pytest.mark.parametrize(
    "reply",
    [
        UpstreamUnreachableError("ConnectError", sent=False),
        HttpReply(429, b""),
        HttpReply(503, b""),
    ],
)
async def test_a_paid_request_for_which_nobody_worked_is_sent_again(fake_client, reply):
    """It costs nothing."""
    client = fake_client(reply, ROWS)
    assert await search(Tavily(client, "https://x.example", ["key"])) == ("ok", 2.0)
    assert len(client.requests) == 2


@pytest.mark.parametrize("reply", [LATE, BROKEN, HttpReply(500, b"")])
async def test_a_free_request_is_sent_again(fake_client, reply):
    """Whatever was done for it."""
    client = fake_client(reply, ROWS)
    assert await search(SearXNG(client, "https://x.example")) == ("ok", 0.0)
    assert len(client.requests) == 2


async def test_a_paid_request_that_is_cancelled_counts():
    """A search that goes on without a slow provider says so in its own reply."""

    class Hangs:
        async def send(self, request, *, timeout_s, max_bytes):
            await asyncio.Event().wait()

    call = SimpleNamespace(credits=0.0)
    provider = Tavily(Hangs(), "https://x.example", ["key"])
    with counting(call):
        searching = asyncio.create_task(
            provider.search(Query("cats", 5), actor=Actor(subject="a"), timeout_s=60.0)
        )
    await until(lambda: call.credits)
    searching.cancel()
    await asyncio.wait([searching])
    assert (call.credits, provider._keys[0].credits) == (1.0, 1.0)


@pytest.mark.parametrize(("timeout_s", "sent", "credits"), [(0.9, 0, 0.0), (5.0, 1, 1.0)])
async def test_a_timeout_that_is_the_callers_is_not_the_providers(
    fake_client, timeout_s, sent, credits
):
    """Others, who wait for the same search, may have more; with too little nothing is paid for."""
    client = fake_client(LATE)
    provider = Tavily(client, "https://x.example", ["key"])
    assert await search(provider, timeout_s) == ("deadline_exceeded", credits)
    assert len(client.requests) == sent


async def test_a_paid_provider_that_is_not_asked_says_so(fake_client):
    """It was not late."""
    with pytest.raises(Fault, match="Tavily was not asked: less than a second was left"):
        await Tavily(fake_client(), "https://x.example", ["key"]).search(
            Query("cats", 5), actor=Actor(subject="a"), timeout_s=0.9
        )

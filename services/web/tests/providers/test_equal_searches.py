"""Equal searches at the same time, of a provider that is late or silent; on the virtual clock."""

from __future__ import annotations

import asyncio

import pytest
from tests.simulation.world import EPOCH_S, simulated

from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_contracts import Actor, Fault
from searchbus_upstream import HttpReply, SharedCache, UpstreamTimeoutError
from searchbus_web.metasearch import Metasearch
from searchbus_web.providers.api import ApiProvider
from searchbus_web.providers.base import Query
from searchbus_web.providers.searxng import SearXNG
from searchbus_web.providers.tavily import Tavily


class Replies:
    """The API of Tavily: it replies after some seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.sent = seconds, 0

    async def send(self, request, *, timeout_s, max_bytes) -> HttpReply:
        self.sent += 1
        await asyncio.sleep(min(timeout_s, self.seconds))
        if timeout_s < self.seconds:
            raise UpstreamTimeoutError("no answer")
        return HttpReply(200, b'{"results": [{"url": "https://a.org/", "title": "A"}]}')


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("seconds", "hurried_s", "code"),
    [(3.0, 2.0, "deadline_exceeded"), (12.0, 10.0, "upstream_failed")],
)
@simulated
async def test_a_search_with_little_time_fails_no_equal_one(workers, seconds, hurried_s, code):
    """Those who wait for the same, here and at other workers, send it again in their own time."""
    buckets = MemoryKeyValue(ttl_s=600), MemoryKeyValue(ttl_s=600)
    client = Replies(seconds)
    searches = [
        Metasearch([Tavily(client, "https://x.example", ["key"])], SharedCache(*buckets))
        for _ in range(workers)
    ]

    async def search(worker: int, timeout_s: float) -> int:
        found = await searches[worker].search(Query("q", 5), actor=Actor(), timeout_s=timeout_s)
        return len(found.results)

    hurried = asyncio.create_task(search(0, hurried_s))
    await asyncio.sleep(0.05)
    patient = [asyncio.create_task(search(number % workers, 30.0)) for number in range(4)]
    with pytest.raises(Fault) as caught:
        await hurried
    assert caught.value.code == code
    assert await asyncio.gather(*patient) == [1] * 4
    assert client.sent == 2


class Stream:
    """Equal searches, one each `gap_s`, at workers in turn, of a provider behind an HTTP API."""

    def __init__(self, provider: type[ApiProvider], client: Replies, workers: int = 1) -> None:
        loop = asyncio.get_running_loop()
        buckets = MemoryKeyValue(ttl_s=600), MemoryKeyValue(ttl_s=600)
        self.providers = [provider(client, "https://x.example", ["key"]) for _ in range(workers)]
        self._searches = [
            Metasearch([p], SharedCache(*buckets), clock=lambda: EPOCH_S + loop.time())
            for p in self.providers
        ]

    async def run(self, gap_s: float, *timeouts_s: float, until_s: float = 120.0) -> list[Fault]:
        """The failures of the searches, which have these times in turn."""
        tasks = []
        for number in range(int(until_s / gap_s)):
            search = self._searches[number % len(self._searches)].search(
                Query("q", 5), actor=Actor(), timeout_s=timeouts_s[number % len(timeouts_s)]
            )
            tasks.append(asyncio.create_task(search))
            await asyncio.sleep(gap_s)
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        return [outcome for outcome in outcomes if isinstance(outcome, Fault)]

    @property
    def credits(self) -> float:
        """What the workers counted."""
        return sum(key.credits for provider in self.providers for key in provider._keys)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("gap_s", [0.5, 1.5])
@pytest.mark.parametrize(
    ("provider", "timeout_s"), [(Tavily, 17.0), (Tavily, 30.0), (SearXNG, 17.0)]
)
@simulated
async def test_equal_searches_ask_a_silent_provider_a_few_times(
    workers, gap_s, provider, timeout_s
):
    """Whoever waited has less time left than the one who asked: a request would be lost as well."""
    client = Replies(3600.0)
    stream = Stream(provider, client, workers)
    faults = await stream.run(gap_s, timeout_s, until_s=120.0 * workers)
    assert len(faults) == int(120.0 * workers / gap_s)
    assert any("is not asked now" in fault.failure.message for fault in faults)
    assert client.sent <= 5 * workers
    assert stream.credits == (client.sent if provider is Tavily else 0.0)


@simulated
async def test_equal_searches_with_little_time_send_one_request_in_the_time_of_each():
    """With as little, no provider counts as silent."""
    client = Replies(3600.0)
    await Stream(SearXNG, client).run(0.02, 3.0, until_s=10.0)
    assert client.sent <= 5


@pytest.mark.parametrize("workers", [1, 2])
@simulated
async def test_searches_with_different_times_ask_a_silent_provider_a_few_times(workers):
    """Each request that follows another has half as much time again."""
    client = Replies(3600.0)
    faults = await Stream(Tavily, client, workers).run(0.3, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 30.0)
    assert any("is not asked now" in fault.failure.message for fault in faults)
    assert client.sent <= 8 * workers


@simulated
async def test_a_used_up_rate_is_looked_at_once_for_equal_searches():
    """Nobody who waits has more time than the others: no turn would come sooner for them."""
    looks = 0

    class Counted(MemoryKeyValue):
        async def get(self, key):
            nonlocal looks
            looks += 1
            return await super().get(key)

    client = Replies(0.1)
    tavily = Tavily(client, "https://x.example", ["key"], kv=Counted(ttl_s=60), rate_per_minute=1)
    await tavily._keys[0].pace.pause(100.0)
    metasearch = Metasearch([tavily], SharedCache())
    looks = 0
    searches = (metasearch.search(Query("q", 5), actor=Actor(), timeout_s=25.0) for _ in range(200))
    faults = await asyncio.gather(*searches, return_exceptions=True)
    assert {fault.code for fault in faults} == {"rate_limited"}
    assert (client.sent, looks) == (0, 1)

"""Providers that hang or become slow, beside one that answers; on the virtual clock."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from tests.simulation.world import EPOCH_S, simulated

from searchbus_contracts import Actor, Fault
from searchbus_upstream import SharedCache
from searchbus_web.metasearch import Metasearch
from searchbus_web.providers.base import Query, Result, SearchResults
from searchbus_web.providers.timeouts import ProviderTimeouts

TIMEOUT_S = 30.0
HARD_S = 0.85 * TIMEOUT_S


class Provider:
    """Answers after some seconds, with as many results as requested."""

    weight = 1.0
    usable = True
    has_news = True

    def __init__(self, name: str, seconds: float = 0.2, results: int = 10) -> None:
        self.name = self.group = name
        self.seconds = seconds
        self.results = results
        self.fault: Fault | None = None
        self.asked = self.cancelled = 0

    async def search(self, query, *, actor, timeout_s) -> SearchResults:
        self.asked += 1
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.fault is not None:
            raise self.fault
        rows = (Result("t", f"http://{self.name}{n}.org/", "") for n in range(self.results))
        return SearchResults(tuple(rows))


class Stepwise(Provider):
    """Works for its reply in steps: time that passes at once is one of them."""

    async def search(self, query, *, actor, timeout_s) -> SearchResults:
        for _ in range(3):
            await asyncio.sleep(self.seconds)
        return await super().search(query, actor=actor, timeout_s=timeout_s)


class Searches:
    """Searches that no cache knows, one after the other."""

    def __init__(self, *providers: Provider) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self._numbers = itertools.count()
        self._metasearch = Metasearch(providers, SharedCache(), clock=lambda: EPOCH_S + loop.time())

    async def one(
        self, timeout_s: float = TIMEOUT_S
    ) -> tuple[float, dict[str, str], tuple[str, ...]]:
        """The seconds of a search, the state of each provider, and the notes."""
        started_s = self._loop.time()
        query = Query(f"q {next(self._numbers)}", 5)
        found = await self._metasearch.search(query, actor=Actor(), timeout_s=timeout_s)
        states = {part.source: part.state for part in found.coverage}
        return self._loop.time() - started_s, states, found.notes

    async def many(self, count: int) -> None:
        """Searches of which every provider answers."""
        for _ in range(count):
            _, states, _ = await self.one()
            assert set(states.values()) == {"answered"}


@simulated
async def test_a_hanging_provider_delays_no_search_for_long():
    """A few wait for a multiple of its usual time; then it is not asked, and one search probes."""
    good, hangs = Provider("a"), Provider("b", 0.4)
    searches = Searches(good, hangs)
    await searches.many(30)
    hangs.seconds = 3600.0
    asked = hangs.asked
    for _ in range(3):
        took_s, states, notes = await searches.one()
        assert took_s < 5.0
        assert states == {"a": "answered", "b": "failed"}
        assert any("b failed (upstream_failed): b did not answer in time" in n for n in notes)
    assert (hangs.asked - asked, hangs.cancelled) == (3, 3)
    for _ in range(20):
        took_s, states, _ = await searches.one()
        assert (took_s, states["b"]) == (pytest.approx(0.2), "failed")
    assert hangs.asked - asked == 3
    await asyncio.sleep(60)
    probe, *others = await asyncio.gather(*(searches.one() for _ in range(10)))
    assert probe[0] < 7.0
    assert {round(took_s, 3) for took_s, _, _ in others} == {0.2}
    assert hangs.asked - asked == 4


@simulated
async def test_a_provider_that_answers_again_is_asked_again():
    """One probe after the cooldown is enough."""
    good, hangs = Provider("a"), Provider("b", 0.4)
    searches = Searches(good, hangs)
    await searches.many(30)
    hangs.seconds = 3600.0
    for _ in range(5):
        await searches.one()
    hangs.seconds = 0.4
    await asyncio.sleep(60)
    await searches.many(5)


@simulated
async def test_a_provider_that_has_become_slower_is_waited_for():
    """What is usual follows what it takes."""
    good, slow = Provider("a"), Provider("b", 0.4)
    searches = Searches(good, slow)
    await searches.many(30)
    slow.seconds = 2.5
    for _ in range(20):
        await searches.one()
        await asyncio.sleep(10)
    await searches.many(5)


@pytest.mark.parametrize("results", [0, 3])
@simulated
async def test_a_page_that_is_not_full_waits_for_every_provider(results):
    """Until its deadline; a provider that hangs is not asked any more after some of these."""
    few, hangs = Provider("a", results=results), Provider("b", 3600.0)
    searches = Searches(few, hangs)
    took = []
    for _ in range(4):
        started_s = asyncio.get_running_loop().time()
        try:
            await searches.one()
        except Fault as fault:
            assert results == 0
            assert fault.code == "upstream_failed"
        took.append(round(asyncio.get_running_loop().time() - started_s, 1))
    assert took == [HARD_S, HARD_S, HARD_S, 0.2]


@simulated
async def test_a_provider_that_fails_quickly_is_asked_each_time():
    """It answers: only silence makes the searches wait."""
    good, fails = Provider("a"), Provider("b")
    fails.fault = Fault("upstream_failed", "b answers HTTP 500. Try again shortly.")
    searches = Searches(good, fails)
    for _ in range(10):
        await searches.one()
    assert fails.asked == 10


@simulated
async def test_an_only_provider_that_hangs_fails_at_once_after_some_searches():
    """With the time until it is asked again."""
    searches = Searches(Provider("a", 3600.0))
    for _ in range(3):
        with pytest.raises(Fault, match="did not answer in time"):
            await searches.one()
    started_s = asyncio.get_running_loop().time()
    with pytest.raises(Fault, match="not asked") as caught:
        await searches.one()
    assert asyncio.get_running_loop().time() == started_s
    assert caught.value.code == "upstream_failed"
    assert 0 < caught.value.failure.retry_after_ms <= 60_000
    assert caught.value.failure.retryable


@simulated
async def test_searches_that_wait_at_the_same_time_meet_one_silence():
    """A moment without replies does not switch the provider off for all callers."""
    slow = Provider("b")
    searches = Searches(Provider("a"), slow)
    await searches.many(30)
    slow.seconds = 60.0
    found = await asyncio.gather(*(searches.one() for _ in range(10)))
    assert {states["b"] for _, states, _ in found} == {"failed"}
    slow.seconds = 0.2
    await searches.many(5)


@simulated
async def test_searches_that_are_cancelled_count_for_nothing():
    """Their callers left; the provider may be as quick as ever."""
    good, slow = Provider("a"), Provider("b", 0.8)
    searches = Searches(good, slow)
    for _ in range(10):
        leaving = asyncio.create_task(searches.one())
        await asyncio.sleep(0.5)
        leaving.cancel()
        await asyncio.wait([leaving])
    await searches.many(5)


@simulated
async def test_searches_with_little_time_count_for_nothing():
    """One caller must not switch a provider off for all others."""
    searches = Searches(Provider("a", 0.4))
    for _ in range(5):
        with pytest.raises(Fault, match="did not answer in time"):
            await searches.one(timeout_s=0.3)
    await searches.many(5)


def stood_still(seconds: float) -> None:
    """Timers of this time are due at once, and the machine of the providers stood still too."""
    asyncio.get_running_loop()._now_s += seconds


@simulated
async def test_a_provider_is_not_silent_beside_a_full_page_while_this_process_stands_still():
    """It had none of the time either, and replies a moment later."""
    searches = Searches(Provider("a"), Stepwise("b", 0.1))
    await searches.many(30)
    for _ in range(5):
        search = asyncio.create_task(searches.one())
        await asyncio.sleep(0.25)
        stood_still(20.0)
        _, states, _ = await search
        assert states["b"] == "answered"


@simulated
async def test_a_reply_counts_that_comes_a_moment_after_a_stand_still():
    """However long that was: the provider had none of the time."""
    timeouts = ProviderTimeouts("a", lambda: EPOCH_S)

    async def replies() -> str:
        for _ in range(3):
            await asyncio.sleep(0.2)
        return "reply"

    for _ in range(5):
        asking = asyncio.create_task(timeouts.ask(replies, 10.0))
        await asyncio.sleep(0.1)
        stood_still(60.0)
        assert await asking == "reply"


@simulated
@pytest.mark.parametrize("timeout_s", [6.1, 6.5, 6.9, 8.0])
async def test_a_provider_whose_own_limit_ends_first_is_silent(timeout_s):
    """Its client says so with the time that it was given, in place of ours."""
    timeouts = ProviderTimeouts("a", lambda: EPOCH_S)

    async def hangs() -> str:
        await asyncio.sleep(timeout_s - 0.01)
        raise Fault("upstream_failed", "a did not answer in time. Try again shortly.")

    for _ in range(3):
        with pytest.raises(Fault, match="did not answer"):
            await timeouts.ask(hangs, timeout_s)
    with pytest.raises(Fault, match="not asked"):
        await timeouts.ask(hangs, timeout_s)


@simulated
async def test_a_failure_that_comes_after_a_stand_still_is_no_silence():
    """It may be that the provider refused at once."""
    provider = Provider("a")
    provider.fault = Fault("upstream_failed", "a answers HTTP 500. Try again shortly.")
    searches = Searches(provider)
    for _ in range(5):
        search = asyncio.create_task(searches.one())
        await asyncio.sleep(0.1)
        stood_still(20.0)
        with pytest.raises(Fault):
            await search
    assert provider.asked == 5

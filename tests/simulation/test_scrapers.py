"""Scrapers at the shipped pace, on the virtual clock: one that was refused, and is free again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from searchbus_bus.store.lease import Lease
from searchbus_contracts import Fault
from searchbus_contracts.web import WebResult, WebSearchReply, WebSearchRequest
from searchbus_ddg.duckduckgo import DuckDuckGo
from searchbus_ddg.egress import LEASE_TTL_S, Cooldowns, Egress, egress_id
from searchbus_ddg.fleet import ScraperFleet
from searchbus_ddg.outcome import EngineError, Outcome, ResultPage
from searchbus_ddg.search import ScrapedSearch
from searchbus_ddg.service import build_worker
from searchbus_ddg.settings import DdgSettings
from searchbus_upstream import Pace, SharedCache

from .world import World, simulate

pytestmark = pytest.mark.slow
SHIPPED = DdgSettings()
REPLY_S = 0.5
TIMEOUT_S = 30.0
_PAGE = ResultPage(Outcome.OK, (WebResult(title="Cats", url="https://cats.example.org/"),))
_PROBE = WebSearchRequest(query="probe")


@dataclass
class Pages:
    """The provider as one address sees it."""

    blocked: bool = False
    sent: int = 0

    async def first_page(
        self, endpoint: str, request: WebSearchRequest, left_s: float
    ) -> ResultPage:
        self.sent += request is not _PROBE
        await asyncio.sleep(REPLY_S)
        if self.blocked:
            raise EngineError(Outcome.CHALLENGE, "it challenges this address")
        return _PAGE


@dataclass
class Scrapers:
    """A fleet in one world, and a caller."""

    world: World
    count: int
    pages: list[Pages] = field(default_factory=list)
    egresses: list[Egress] = field(default_factory=list)
    exits: list[ScraperFleet] = field(default_factory=list)

    async def start(self) -> None:
        broker = self.world.broker()
        leases = self.world.store(ttl_s=LEASE_TTL_S)
        refusals = self.world.store(ttl_s=3600.0)
        for number in range(self.count):
            bus, pages = broker.connect(), Pages()
            pace = Pace(SHIPPED.ddg_interval_s, min_interval_s=SHIPPED.ddg_min_interval_s)
            egress = Egress(
                f"e{number}", None, pace, cooldowns=Cooldowns(challenge_s=3.0),
                clock=self.world.now_s,
            )  # fmt: skip
            key = egress_id(f"e{number}")
            await Lease(leases, key, f"h{number}".encode()).write()

            async def probe(egress: Egress = egress, pages: Pages = pages) -> bool:
                return await egress.probe(lambda s: pages.first_page("html", _PROBE, s), 15.0)

            fleet = ScraperFleet(egress, key, f"h{number}", leases, refusals, probe)
            await fleet.__aenter__()
            duckduckgo = DuckDuckGo(
                bus, egress, ScrapedSearch(egress, pages), fleet, SharedCache(), DdgSettings()
            )
            fleet.manage(await bus.serve(build_worker(duckduckgo)))
            self.pages.append(pages)
            self.egresses.append(egress)
            self.exits.append(fleet)
        self.caller = broker.connect()

    async def stop(self) -> None:
        for fleet in self.exits:
            await fleet.release()

    async def search(self, query: str) -> float | Fault:
        """The seconds of a search, or its failure."""
        started_s = self.world.loop.time()
        try:
            await self.caller.request(
                self.caller.subjects.endpoint("ddg", "search"), WebSearchRequest(query=query),
                WebSearchReply, service="ddg", timeout_s=TIMEOUT_S,
            )  # fmt: skip
        except Fault as fault:
            return fault
        return self.world.loop.time() - started_s

    async def load(self, words: str, *, rate_per_s: float, seconds: float) -> list[float | Fault]:
        """Searches that come at random, all different."""
        end_s = self.world.loop.time() + seconds
        searches = []
        while self.world.loop.time() < end_s:
            await asyncio.sleep(self.world.chance.expovariate(rate_per_s))
            searches.append(asyncio.create_task(self.search(f"{words} {len(searches)}")))
        return await asyncio.gather(*searches)


def p99(took: list[float | Fault]) -> float:
    """The 99th percentile of searches that all succeeded."""
    failed = [outcome for outcome in took if isinstance(outcome, Fault)]
    assert failed == []
    return sorted(took)[int(0.99 * len(took))]


async def refused_for_five_minutes(world: World) -> tuple[float, float, float, int]:
    """The p99 of before, during and after, at a third of what six addresses can send."""
    fleet = Scrapers(world, 6)
    await fleet.start()
    rate_per_s = 6 / SHIPPED.ddg_min_interval_s / 3
    await fleet.load("warm", rate_per_s=rate_per_s, seconds=60)
    before = await fleet.load("before", rate_per_s=rate_per_s, seconds=600)
    fleet.pages[2].blocked = True
    during = await fleet.load("during", rate_per_s=rate_per_s, seconds=300)
    fleet.pages[2].blocked = False
    sent = fleet.pages[2].sent
    after = await fleet.load("after", rate_per_s=rate_per_s, seconds=600)
    await fleet.stop()
    return p99(before), p99(during), p99(after), fleet.pages[2].sent - sent


@pytest.mark.parametrize("seed", range(3))
def test_a_scraper_that_was_refused_delays_nobody_when_it_is_free_again(seed):
    """Nor while it is refused; afterwards it has its share of the searches again."""
    before_s, during_s, after_s, sent = simulate(refused_for_five_minutes, seed=seed)
    assert during_s <= 2 * before_s
    assert after_s <= 2 * before_s
    assert sent > 40, "a hundred are a sixth of all, and it is refused for a minute more"


async def too_many(world: World) -> list[float | Fault]:
    """Three times as many searches as three addresses can send."""
    fleet = Scrapers(world, 3)
    await fleet.start()
    found = await fleet.load("many", rate_per_s=3 * 3 / SHIPPED.ddg_min_interval_s, seconds=120)
    await fleet.stop()
    return found


@pytest.mark.parametrize("seed", range(2))
def test_searches_that_nobody_can_take_in_time_are_told_so(seed):
    """Our own pace is named, and when to try again; the addresses go on at their pace meanwhile."""
    found = simulate(too_many, seed=seed)
    refused = [outcome.failure for outcome in found if isinstance(outcome, Fault)]
    assert {failure.code for failure in refused} == {"overloaded"}
    assert all("at a limited pace" in failure.message for failure in refused)
    assert all(failure.retryable and failure.retry_after_ms > 0 for failure in refused)
    assert len(found) - len(refused) > 0.9 * 120 * 3 / SHIPPED.ddg_interval_s

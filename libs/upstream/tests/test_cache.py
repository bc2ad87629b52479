"""The shared cache."""

from __future__ import annotations

import asyncio

import pytest
from tests.simulation.world import simulated

from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_contracts import ErrorCode, Fault
from searchbus_testing import until
from searchbus_upstream import Cached, Fetched, SharedCache


class Upstream:
    """Counts fetches; fails while `failure` is set."""

    def __init__(self, seconds: float = 0.05) -> None:
        self.calls = 0
        self.cancelled = 0
        self.seconds = seconds
        self.failure: Fault | None = None
        self.store = True

    async def __call__(self) -> Fetched:
        self.calls += 1
        try:
            await asyncio.sleep(self.seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.failure is not None:
            raise self.failure
        return Fetched(b"answer %d" % self.calls, self.store)


@pytest.fixture
def buckets():
    return MemoryKeyValue(ttl_s=60), MemoryKeyValue(ttl_s=20)


@pytest.fixture
def upstream():
    return Upstream()


async def get(cache, upstream, request="q", fresh_s=60.0, stale_s=600.0):
    return await cache.get(request, upstream, fresh_s=fresh_s, stale_s=stale_s)


@pytest.mark.parametrize("shared", [True, False])
async def test_equal_requests_at_once_cost_one_fetch(buckets, upstream, shared):
    """A hundred over four workers; later requests are served from the cache."""
    caches = [SharedCache(*buckets) if shared else SharedCache() for _ in range(4 if shared else 1)]
    answers = await asyncio.gather(*(get(caches[i % len(caches)], upstream) for i in range(100)))
    assert upstream.calls == 1
    assert {answer.value for answer in answers} == {b"answer 1"}
    assert (await get(caches[-1], upstream)).hit
    await get(caches[0], upstream, request="other")
    assert upstream.calls == 2


async def test_failure_is_raised_for_all_who_wait_and_not_stored(buckets, upstream):
    """One fetch for all of them; the next request fetches again."""
    upstream.failure = Fault(ErrorCode.UPSTREAM_FAILED, "down")
    caches = [SharedCache(*buckets) for _ in range(3)]
    outcomes = await asyncio.gather(
        *(get(cache, upstream) for cache in caches * 5), return_exceptions=True
    )
    assert all(isinstance(o, Fault) and o.code == "upstream_failed" for o in outcomes)
    assert upstream.calls == 1
    upstream.failure = None
    assert (await get(caches[1], upstream)).value == b"answer 2"


async def test_stale_value_is_returned_and_marked_while_fetching_fails(buckets, upstream):
    """Until it is older than `stale_s`."""
    now_s = [1000.0]
    cache = SharedCache(*buckets, clock=lambda: now_s[0])
    await get(cache, upstream)
    upstream.failure = Fault(ErrorCode.UPSTREAM_BLOCKED, "refused")
    now_s[0] += 100
    stale = await get(cache, upstream)
    assert (stale.value, stale.stale) == (b"answer 1", True)
    now_s[0] += 1000
    with pytest.raises(Fault):
        await get(cache, upstream)


async def test_first_caller_may_leave(buckets):
    """The others still get the value; the fetch is cancelled when all have left."""
    upstream = Upstream(0.2)
    cache, other = SharedCache(*buckets), SharedCache(*buckets)
    waiting = [asyncio.create_task(get(c, upstream)) for c in (cache, cache, other)]
    await asyncio.sleep(0.05)
    waiting[0].cancel()
    assert (await waiting[1]).value == (await waiting[2]).value == b"answer 1"
    assert (upstream.calls, upstream.cancelled) == (1, 0)
    upstream.seconds = 3600
    alone = asyncio.create_task(get(cache, upstream, request="alone"))
    await until(lambda: upstream.calls == 2)
    alone.cancel()
    await asyncio.gather(alone, return_exceptions=True)
    await until(lambda: upstream.cancelled == 1)
    upstream.seconds = 0
    assert (await get(other, upstream, request="alone")).value == b"answer 3"


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("code", ["overloaded", "rate_limited", "deadline_exceeded", "cancelled"])
async def test_failure_of_one_callers_budget_is_not_shared(buckets, code, workers):
    """The others who wait fetch for themselves."""
    caches = [SharedCache(*buckets) for _ in range(workers)]
    upstream = Upstream()
    upstream.failure = Fault(code, "no turn in time")
    first = asyncio.create_task(get(caches[0], upstream))
    await until(lambda: upstream.calls == 1)
    second = asyncio.create_task(get(caches[-1], upstream))
    with pytest.raises(Fault):
        await asyncio.wait_for(first, 60)
    upstream.failure = None
    assert (await second).value == b"answer 2"


class Hurried:
    """A fetch that ends with a failure after some seconds; counts."""

    def __init__(self, seconds: float, fault: Fault) -> None:
        self.seconds, self.fault, self.calls = seconds, fault, 0

    async def __call__(self) -> Fetched:
        self.calls += 1
        await asyncio.sleep(self.seconds)
        raise self.fault


DUE = Fault("rate_limited", "The rate limit is used up.", retry_after_ms=6000)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    ("fault", "took_s", "left_s", "again"),
    [
        (Fault("deadline_exceeded", "late"), 4.0, 6.5, True),
        (Fault("deadline_exceeded", "late"), 4.0, 5.5, False),
        (Fault("deadline_exceeded", "late"), 0.1, 0.9, False),
        (DUE, 0.1, 7.5, True),
        (DUE, 0.1, 6.5, False),
        (Fault("overloaded", "Its turn is late.", retry_after_ms=6000), 0.1, 0.5, True),
        (Fault("upstream_failed", "down"), 1.0, 60.0, False),
    ],
)
@simulated
async def test_who_waited_fetches_again_only_with_clearly_more_time(
    buckets, workers, fault, took_s, left_s, again
):
    """It would fail as well, and one after the other would ask an upstream that is silent."""

    caches = [SharedCache(*buckets) for _ in range(workers)]
    hurried, upstream = Hurried(took_s, fault), Upstream()

    async def follow(cache: SharedCache) -> Cached:
        return await cache.get("q", upstream, fresh_s=60, stale_s=600, timeout_s=took_s + left_s)

    first = asyncio.create_task(get(caches[0], hurried))
    await asyncio.sleep(0.01)
    following = [follow(caches[n % workers]) for n in range(20)]
    outcomes = await asyncio.gather(*following, return_exceptions=True)
    assert (await asyncio.gather(first, return_exceptions=True))[0].code == fault.code
    assert (hurried.calls, upstream.calls) == (1, again)
    codes = {o.code if isinstance(o, Fault) else o.value for o in outcomes}
    assert codes == ({b"answer 1"} if again else {fault.code})


@simulated
async def test_a_caller_whose_time_ends_while_another_worker_fetches_costs_nobody_a_fetch():
    """Nothing was asked for it: those who joined it fetch, one for all of them."""
    buckets = MemoryKeyValue(ttl_s=60), MemoryKeyValue(ttl_s=20)
    here, there = SharedCache(*buckets), SharedCache(*buckets)
    silent, upstream = Upstream(3600), Upstream()

    async def follow(after_s: float, timeout_s: float) -> bytes:
        await asyncio.sleep(after_s)
        found = await here.get("q", upstream, fresh_s=60, stale_s=600, timeout_s=timeout_s)
        return found.value

    leaving = asyncio.create_task(get(there, silent))
    times = ((0.1, 10.0), (9.0, 15.0), (9.5, 15.0))
    following = [asyncio.create_task(follow(*each)) for each in times]
    await asyncio.sleep(11.0)
    leaving.cancel()
    over, *others = await asyncio.gather(*following, return_exceptions=True)
    assert (over.code, others) == ("deadline_exceeded", [b"answer 1"] * 2)
    assert (silent.calls, upstream.calls) == (1, 1)


async def test_a_failure_of_ones_own_budget_lets_nobody_look_again():
    """Each who waits may fetch, one after the other: the store has nothing new for them."""

    class Counted(MemoryKeyValue):
        reads = 0

        async def get(self, key):
            self.reads += 1
            return await super().get(key)

    answers = Counted(ttl_s=60)
    cache, upstream = SharedCache(answers), Upstream(seconds=0.0)
    upstream.failure = Fault("overloaded", "no turn in time")
    calls = (get(cache, upstream) for _ in range(50))
    await asyncio.gather(*calls, return_exceptions=True)
    assert (upstream.calls, answers.reads) == (50, 50)


async def test_unreachable_store_is_not_a_failure(buckets, upstream):
    """Every worker caches for itself."""
    cache = SharedCache(*buckets)
    buckets[0].away = buckets[1].away = True
    assert (await get(cache, upstream)).value == b"answer 1"
    assert (await get(cache, upstream)).hit
    buckets[0].away = buckets[1].away = False
    assert (await get(SharedCache(*buckets), upstream)).value == b"answer 2"


async def test_values_in_the_process_have_a_limit(upstream):
    """The least recently used are dropped first; one that is too large is not kept."""
    cache = SharedCache(local_bytes=30)
    for number in range(10):
        await get(cache, upstream, request=str(number))
    await get(cache, upstream, request="9")
    assert upstream.calls == 10
    await get(cache, upstream, request="0")
    assert upstream.calls == 11
    tiny = SharedCache(local_bytes=3)
    assert not (await get(tiny, upstream)).hit
    assert not (await get(tiny, upstream)).hit


@pytest.mark.parametrize("shared", [True, False])
async def test_unstored_value_is_for_those_who_wait_only(buckets, upstream, shared):
    """Also in other workers; the next request fetches again."""
    upstream.store = False
    caches = [SharedCache(*buckets) if shared else SharedCache() for _ in range(3 if shared else 1)]
    values = await asyncio.gather(*(get(cache, upstream) for cache in caches * 5))
    assert {cached.value for cached in values} == {b"answer 1"}
    assert upstream.calls == 1
    for number, cache in enumerate(caches, 2):
        cached = await get(cache, upstream)
        assert (cached.value, cached.hit) == (b"answer %d" % number, False)


async def test_lease_of_a_cancelled_fetch_is_released(buckets):
    """Another worker need not wait for its end."""
    upstream = Upstream(30.0)
    leaving = asyncio.create_task(get(SharedCache(*buckets), upstream))
    while not upstream.calls:
        await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    upstream.seconds = 0.0
    async with asyncio.timeout(10):  # it would end after 20 s
        assert (await get(SharedCache(*buckets), upstream)).value == b"answer 2"


async def test_value_may_be_stored_and_looked_up_without_a_fetch(buckets):
    """For all workers, until it is too old."""
    now_s = [1000.0]
    one, other = (SharedCache(*buckets, clock=lambda: now_s[0]) for _ in range(2))
    assert await other.stored("q", fresh_s=60) is None
    await one.store("q", b"known")
    found = await other.stored("q", fresh_s=60)
    assert (found.value, found.made_ms) == (b"known", 1_000_000)
    now_s[0] += 60
    assert await other.stored("q", fresh_s=60) is None


@pytest.mark.parametrize("shared", [True, False])
async def test_a_request_waits_no_longer_than_its_own_time(buckets, shared):
    """Neither for its own fetch nor for that of another request, which goes on."""
    upstream = Upstream(seconds=3600)
    caches = [SharedCache(*buckets) if shared else SharedCache() for _ in range(2)]
    patient = asyncio.create_task(get(caches[0], upstream))
    await until(lambda: upstream.calls == 1)
    for cache in caches:
        with pytest.raises(Fault) as caught:
            await cache.get("q", upstream, fresh_s=60, stale_s=600, timeout_s=0.05)
        assert caught.value.code == ErrorCode.DEADLINE_EXCEEDED
    assert not patient.done()
    patient.cancel()


async def test_a_stale_value_is_returned_where_the_time_is_over(buckets):
    """As where fetching fails."""
    cache = SharedCache(*buckets)
    await get(cache, Upstream())
    found = await cache.get("q", Upstream(3600), fresh_s=0, stale_s=600, timeout_s=0.05)
    assert (found.value, found.stale) == (b"answer 1", True)

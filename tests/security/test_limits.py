"""Limits that hold over edges, are fair between callers, and fail as they should."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searchbus_bus.keyvalue_memory import MemoryKeyValue
from searchbus_contracts import Fault
from searchbus_edge.calls.limits import LocalLimiter, SharedLimiter


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


async def admitted(limiter, caller="alice") -> bool:
    try:
        await limiter.admit(caller)
    except Fault as fault:
        assert fault.code == "rate_limited"
        assert fault.failure.retry_after_ms >= 1
        return False
    return True


def edges(number, rate, burst, clock, **options):
    kv = MemoryKeyValue(ttl_s=3600, clock=clock)
    return kv, [SharedLimiter("x", kv, rate, burst, clock=clock, **options) for _ in range(number)]


async def test_three_edges_admit_no_more_than_one():
    """Over-admission at most 5 %, and most of the limit is used."""
    clock = Clock()
    _, limiters = edges(3, 20.0, 20, clock)
    count = 0
    for step in range(6000):  # a minute at a hundred a second
        count += await admitted(limiters[step % 3])
        clock.now_s += 0.01
    allowed = 20 * 60 + 20
    assert 0.85 * allowed <= count <= 1.05 * allowed


async def test_one_greedy_caller_takes_nothing_from_nine_others():
    """Jain's index of what they get is nearly one."""
    clock = Clock()
    _, limiters = edges(3, 5.0, 5, clock)
    got = dict.fromkeys(range(10), 0)
    for step in range(3000):  # half a minute; the first asks twenty times as often
        for caller in range(10):
            for _ in range(20 if caller == 0 else 1):
                got[caller] += await admitted(limiters[step % 3], f"c{caller}")
        clock.now_s += 0.1
        if step == 300:
            break
    values = list(got.values())
    assert sum(values) ** 2 / (len(values) * sum(v * v for v in values)) >= 0.98


async def test_shared_memory_that_is_away_counts_here_or_refuses():
    """As the limit says: a free tool goes on, one that costs money does not."""
    clock = Clock()
    kv, (limiter,) = edges(1, 10.0, 10, clock)
    closed = SharedLimiter("y", kv, 10.0, 10, clock=clock, fail_closed=True)
    kv.away = True
    assert sum([await admitted(limiter) for _ in range(50)]) == 10
    assert not await admitted(closed)
    none = SharedLimiter("z", None, 10.0, 10, clock=clock)
    assert sum([await admitted(none) for _ in range(50)]) == 10
    kv.away = False
    clock.now_s += 5
    assert await admitted(closed)


async def test_many_at_once_are_counted_once_each():
    """Concurrent callers of one process share its lease."""
    clock = Clock()
    _, limiters = edges(3, 100.0, 100, clock)
    results = await asyncio.gather(*(admitted(limiters[n % 3]) for n in range(400)))
    assert 90 <= sum(results) <= 105


@settings(max_examples=60)
@given(st.lists(st.floats(0, 2), min_size=1, max_size=120), st.floats(0.5, 50), st.integers(1, 30))
def test_bucket_never_admits_more_than_rate_and_burst(pauses, rate, burst):
    """In any window that begins now."""
    clock = Clock()
    limiter = LocalLimiter(rate, burst, clock=clock)

    async def run() -> int:
        count = 0
        for pause in pauses:
            clock.now_s += pause
            count += await admitted(limiter)
        return count

    assert asyncio.run(run()) <= burst + rate * sum(pauses) + 1


@pytest.mark.parametrize("secured", [{"call_rate_per_s": 0.01, "call_burst": 3}], indirect=True)
async def test_calls_of_one_caller_are_limited_and_the_others_are_not(secured):
    """isError with the time to wait; the list goes on."""
    token, other = secured.provider.token(), secured.provider.token(sub="bob")
    for _ in range(3):
        answer = await secured.result("tools/call", token, name="open_tool", arguments={})
        assert not answer["result"].get("isError")
    answer = await secured.result("tools/call", token, name="open_tool", arguments={})
    assert answer["result"]["structuredContent"]["error"]["code"] == "rate_limited"
    assert answer["result"]["structuredContent"]["error"]["retry_after_ms"] > 1000
    answer = await secured.result("tools/call", other, name="open_tool", arguments={})
    assert not answer["result"].get("isError")
    assert (await secured.post("tools/list", token)).status_code == 200


@pytest.mark.parametrize("secured", [{"abuse_rate_per_s": 0.01, "abuse_burst": 5}], indirect=True)
async def test_abuse_is_answered_by_http(secured):
    """429 with Retry-After and RateLimit, a JSON-RPC body, for that caller only."""
    token, other = secured.provider.token(), secured.provider.token(sub="bob")
    for _ in range(5):
        assert (await secured.post("tools/list", token)).status_code == 200
    refused = await secured.post("tools/list", token)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert "r=0" in refused.headers["ratelimit"]
    assert refused.json()["error"]["code"] == -31429
    assert (await secured.post("tools/list", other)).status_code == 200


@pytest.mark.parametrize("secured", [{"costly_rate_per_s": 0.01, "costly_burst": 2}], indirect=True)
async def test_tool_that_costs_money_has_a_limit_of_its_own_and_fails_closed(secured):
    """Refused while nobody can count, where a free tool goes on."""
    token = secured.provider.token("PAYER")

    async def code(name):
        answer = await secured.result("tools/call", token, name=name, arguments={})
        found = answer["result"].get("structuredContent") or {}
        return found.get("error", {}).get("code", "ok")

    assert [await code("paid_tool") for _ in range(3)] == ["ok", "ok", "rate_limited"]
    assert await code("open_tool") == "ok"
    token = secured.provider.token("PAYER", sub="carol")
    secured.store.away = True
    assert await code("paid_tool") == "rate_limited"
    assert await code("open_tool") == "ok"

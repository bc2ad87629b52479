"""What a worker knows of the others."""

from __future__ import annotations

import asyncio
import gc
import time

import pytest

from searchbus_contracts import ErrorCode, Fault
from searchbus_ddg.fleet import Others
from searchbus_upstream import Breaker


async def started(key: str, leases, refusals, breaker: Breaker | None = None) -> Others:
    others = Others(key, leases, refusals)
    await leases.put(key, b"x")
    await others.start(breaker or Breaker())
    return others


async def test_nobody_else_is_not_healthy(leases, refusals):
    """Nor is anybody before the first look, or while the store is unreachable."""
    others = await started("a", leases, refusals)
    await others.look(younger_than_s=0)
    assert not others.healthy
    await started("b", leases, refusals)
    await others.look(younger_than_s=0)
    assert others.healthy
    leases.away = True
    with pytest.raises(Fault):
        await others.look(younger_than_s=0)
    assert not others.healthy


async def test_a_change_is_known_at_once_without_a_look(leases, refusals):
    """A refusal, its end, and that a worker stopped."""
    changes = []
    one = Others("a", leases, refusals, on_change=lambda: changes.append(1))
    await one.start(Breaker())
    other = await started("b", leases, refusals)
    await one.look(younger_than_s=0)
    breaker = Breaker()
    breaker.refused(100.0)
    await other.publish(breaker)
    assert not one.healthy
    assert 90 < one.first_probe_s - time.time() <= 100
    breaker.close()
    await other.publish(breaker)
    assert one.healthy
    await other.leave(breaker)
    assert not one.healthy
    assert len(changes) == 3


async def test_an_unchanged_state_is_not_written_again(leases, refusals):
    """Nothing is sent while nothing changes."""
    other = await started("b", leases, refusals)
    breaker = Breaker()
    breaker.refused(100.0)
    await other.publish(breaker)
    refusals.requests = leases.requests = 0
    for _ in range(10):
        await other.publish(breaker)
    assert refusals.requests == leases.requests == 0


async def test_refusals_from_before_it_watched_are_read_once(leases, refusals):
    """A worker that starts late knows as much as the others."""
    for number in range(20):
        breaker = Breaker()
        breaker.refused(100.0)
        await (await started(f"b{number}", leases, refusals)).publish(breaker)
    late = await started("late", leases, refusals)
    await late.look(younger_than_s=0)
    assert not late.healthy
    refusals.requests = leases.requests = 0
    await late.look(younger_than_s=0)
    assert (leases.requests, refusals.requests) == (1, 1)


async def test_a_worker_that_stopped_while_refused_does_not_count_for_ever(leases, refusals):
    """Its address is free again some time after the cooldown, when another worker has it."""
    now_s = [1000.0]
    others = Others("a", leases, refusals, clock=lambda: now_s[0])
    await others.start(Breaker())
    other = await started("b", leases, refusals)
    breaker = Breaker(clock=lambda: now_s[0])
    breaker.refused(100.0)
    await other.publish(breaker)
    await others.look(younger_than_s=0)
    assert not others.healthy
    now_s[0] += 200
    assert others.healthy


async def test_the_next_worker_of_an_address_continues_its_cooldown(leases, refusals):
    """A refusal, not a suspicion; the mark of a worker that left is taken back."""
    for restored, open_breaker in (
        (True, lambda breaker: breaker.refused(100.0)),
        (False, lambda breaker: breaker.suspect(100.0)),
        (False, lambda breaker: None),
    ):
        first, breaker = await started("a", leases, refusals), Breaker()
        open_breaker(breaker)
        await first.leave(breaker)
        successor = Breaker()
        second = await started("a", leases, refusals, successor)
        assert successor.closed != restored
        await second.publish(successor)
        assert (await refusals.get("a") is not None) == restored


async def test_looks_at_the_same_time_are_one(leases, refusals):
    """However many requests are refused at once."""
    others = await started("a", leases, refusals)
    leases.requests = 0
    await asyncio.gather(*(others.look(younger_than_s=1) for _ in range(100)))
    assert leases.requests == 1


async def test_an_entry_that_cannot_be_read_is_ignored(leases, refusals, caplog):
    """It is logged."""
    others = await started("a", leases, refusals)
    await leases.put("b", b"{}")
    await refusals.put("b", b"\xff")
    await others.look(younger_than_s=0)
    assert others.healthy
    assert "cannot be read" in caplog.text


async def test_an_earlier_refusal_that_cannot_be_read_does_not_stop_the_start(leases, refusals):
    """As if there were none."""
    await refusals.put("a", b"{")
    breaker = Breaker()
    await started("a", leases, refusals, breaker)
    assert breaker.closed


async def test_a_look_that_fails_after_its_caller_gave_up_is_no_error(
    leases, refusals, caplog, monkeypatch
):
    """The next look reports it, where the store is still away."""
    others = await started("a", leases, refusals)
    gone = asyncio.Event()

    async def keys() -> list[str]:
        await gone.wait()
        raise Fault(ErrorCode.UNAVAILABLE, "The key-value store is unreachable.")

    monkeypatch.setattr(leases, "keys", keys)
    await others.look(younger_than_s=0, timeout_s=0)
    gone.set()
    assert others._looking is not None
    await asyncio.wait([others._looking])
    others._looking = None
    gc.collect()
    assert "never retrieved" not in caplog.text

"""Budgets of a day, over several edges."""

from __future__ import annotations

import asyncio
import json

import pytest

from searchbus_bus.store.keyvalue import MemoryKeyValue
from searchbus_contracts import Fault
from searchbus_edge.settings import EdgeSettings
from searchbus_edge.tools.budgets import Budgets, tokens_of

DAY_S = 86_400
NOON_S = 20_000 * DAY_S + DAY_S / 2


class Clock:
    now_s = NOON_S

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(clock):
    return MemoryKeyValue(ttl_s=2 * DAY_S, clock=clock)


def refused(raised) -> str:
    assert raised.value.code == "rate_limited"
    return raised.value.failure.message


async def test_a_budget_that_is_used_up_is_named_until_midnight(store, clock):
    """Another caller has a budget of its own; the next day begins with nothing spent."""
    budgets = Budgets({"caller_calls": 2}, store, clock=clock)
    for _ in range(2):
        await budgets.admit("ann", costly=False)
    with pytest.raises(Fault) as raised:
        await budgets.admit("ann", costly=False)
    assert "The budget caller_calls of today is used up: 2 calls of this caller" in refused(raised)
    assert raised.value.failure.retry_after_ms == DAY_S / 2 * 1000 + 1
    assert raised.value.failure.retryable
    await budgets.admit("bob", costly=False)
    clock.now_s += DAY_S / 2
    await budgets.admit("ann", costly=False)


async def test_edges_count_together(store, clock):
    """What one wrote, another one knows; a restart forgets nothing that was written."""
    first, second = [Budgets({"tenant_calls": 3}, store, clock=clock) for _ in range(2)]
    for budgets in (first, second):
        await budgets.admit("ann", costly=False)
        await budgets.write()
    await first.admit("bob", costly=False)
    await first.write()
    await second.write()
    with pytest.raises(Fault, match="3 calls of all callers together"):
        await Budgets({"tenant_calls": 3}, store, clock=clock).admit("new", costly=False)
    with pytest.raises(Fault, match="tenant_calls"):
        await first.admit("ann", costly=False)


async def test_calls_that_cost_money_and_tokens_have_budgets_of_their_own(store, clock):
    """A refused call counts for none of them."""
    limits = {"caller_costly_calls": 1, "caller_tokens": 10, "tenant_calls": 100}
    budgets = Budgets(limits, store, clock=clock)
    await budgets.admit("ann", costly=True)
    with pytest.raises(Fault, match="caller_costly_calls of today is used up: 1 costly calls"):
        await budgets.admit("ann", costly=True)
    await budgets.admit("ann", costly=False)
    budgets.spend("ann", tokens=tokens_of(37), credits=0.0)
    with pytest.raises(Fault, match="caller_tokens"):
        await budgets.admit("ann", costly=False)
    await budgets.write()
    other = Budgets({"tenant_calls": 3}, store, clock=clock)
    await other.admit("bob", costly=False)
    with pytest.raises(Fault, match="tenant_calls"):
        await other.admit("bob", costly=False)


async def test_credits_are_counted_in_parts(store, clock):
    """A page costs a fifth of one; the budget is in whole ones."""
    budgets = Budgets({"tenant_credits": 1}, store, clock=clock)
    for _ in range(5):
        await budgets.admit("ann", costly=False)
        budgets.spend("ann", tokens=0, credits=0.2)
    with pytest.raises(Fault, match="1 credits of all callers together"):
        await budgets.admit("bob", costly=False)


async def test_without_the_store_each_edge_counts_on(store, clock):
    """And adds that when the store is back."""
    budgets = Budgets({"caller_calls": 3}, store, clock=clock)
    await budgets.admit("ann", costly=False)
    await budgets.write()
    store.away = True
    await budgets.admit("ann", costly=False)
    await budgets.write()
    fresh = Budgets({"caller_calls": 3}, store, clock=clock)
    await fresh.admit("ann", costly=False)
    store.away = False
    await budgets.write()
    await fresh.write()
    for one in (budgets, fresh):
        with pytest.raises(Fault):
            await one.admit("ann", costly=False)
            await one.write()
            await one.admit("ann", costly=False)


@pytest.mark.parametrize("found", [b"{", b"[]", b'{"calls": "many"}', b"\xff"])
async def test_counts_that_cannot_be_read_begin_anew(store, clock, found):
    """They end neither a call nor the writing."""
    known = Budgets({"caller_calls": 2}, store, clock=clock)
    await known.admit("ann", costly=False)
    await known.write()
    (key,) = await store.keys()
    await store.put(key, found)
    budgets = Budgets({"caller_calls": 2}, store, clock=clock)
    for _ in range(2):
        await budgets.admit("ann", costly=False)
        await budgets.write()
    with pytest.raises(Fault, match="caller_calls"):
        await budgets.admit("ann", costly=False)


async def test_counts_are_written_while_and_when_it_ends(store, clock):
    """The last second before an orderly end is counted too."""
    async with Budgets({"caller_calls": 1}, store, clock=clock).keeping() as budgets:
        await budgets.admit("ann", costly=False)
    with pytest.raises(Fault):
        await Budgets({"caller_calls": 1}, store, clock=clock).admit("ann", costly=False)


def test_unknown_budgets_are_refused():
    """With the names that there are."""
    with pytest.raises(ValueError, match="there is no budget 'calls': use caller_calls"):
        EdgeSettings(daily_budgets={"calls": 1})


async def test_calls_that_wait_for_the_counts_together_are_counted_one_by_one(
    store, clock, monkeypatch
):
    """Those of a new day, or of an edge that has just started."""
    look = store.get

    async def slow(key):
        await asyncio.sleep(0)
        return await look(key)

    monkeypatch.setattr(store, "get", slow)
    budgets = Budgets({"caller_calls": 2, "tenant_calls": 100}, store, clock=clock)
    calls = [budgets.admit("ann", costly=False) for _ in range(10)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(one, Fault) for one in outcomes].count(False) == 2


class Late(MemoryKeyValue):
    """While `late`, a write is done and its reply does not come in time."""

    late = False

    def _write(self, key, value):
        revision = super()._write(key, value)
        if self.late:
            raise Fault("unavailable", "The store is slow.")
        return revision


@pytest.fixture
def late(clock):
    return Late(ttl_s=2 * DAY_S, clock=clock)


@pytest.mark.parametrize("others", [0, 1, 5])
async def test_a_write_whose_reply_is_late_is_counted_once(late, clock, others):
    """Also where other edges write in between, and calls come meanwhile."""
    limits = {"tenant_calls": 20}
    edge = Budgets(limits, late, clock=clock)
    beside = [Budgets(limits, late, clock=clock) for _ in range(others)]
    for _ in range(3):
        late.late = True
        await edge.admit("ann", costly=False)
        await edge.write()
        late.late = False
        for other in beside:
            await other.admit("bob", costly=False)
            await other.write()
    await edge.write()
    await edge.write()
    fresh = Budgets(limits, late, clock=clock)
    for _ in range(20 - 3 - 3 * others):
        await fresh.admit("new", costly=False)
    with pytest.raises(Fault, match="tenant_calls"):
        await fresh.admit("new", costly=False)


async def test_a_late_write_that_is_done_after_the_next_look_is_counted_once(store, clock):
    """The compare and set of the repeated write fails then."""
    budgets = Budgets({"tenant_calls": 3}, store, clock=clock)
    await budgets.admit("ann", costly=False)
    under_way = []

    async def lost(key, value):
        under_way.append((key, value))
        raise Fault("unavailable", "The store is slow.")

    create, store.create = store.create, lost
    await budgets.write()
    await budgets.admit("ann", costly=False)

    async def beaten(key, value):
        store.create = create
        await create(*under_way.pop())
        return await create(key, value)

    store.create = beaten
    for _ in range(2):
        await budgets.write()
    fresh = Budgets({"tenant_calls": 3}, store, clock=clock)
    await fresh.admit("bob", costly=False)
    with pytest.raises(Fault, match="tenant_calls"):
        await fresh.admit("bob", costly=False)


async def test_an_entry_stays_small_however_many_edges_come_and_go(store, clock):
    """The last ones that wrote are known by a number each; all that they counted stays."""
    for _ in range(200):
        budgets = Budgets({"tenant_calls": 1000}, store, clock=clock)
        await budgets.admit("ann", costly=False)
        await budgets.write()
    (key,) = await store.keys()
    entry = await store.get(key)
    assert b'"calls":200' in entry.value
    assert len(entry.value) < 1000


async def test_an_edge_that_keeps_no_numbers_of_writes_counts_beside_newer_ones(store, clock):
    """While edges are replaced: it adds to what it finds, and leaves the rest."""
    budgets = Budgets({"tenant_calls": 3}, store, clock=clock)
    await budgets.admit("ann", costly=False)
    await budgets.write()
    (key,) = await store.keys()
    found = json.loads((await store.get(key)).value)
    assert all(isinstance(count, int) for count in found.values())
    await store.put(key, json.dumps(found | {"calls": found["calls"] + 2}).encode())
    with pytest.raises(Fault, match="tenant_calls"):
        await Budgets({"tenant_calls": 3}, store, clock=clock).admit("bob", costly=False)

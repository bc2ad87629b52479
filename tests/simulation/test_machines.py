"""State machines: limiter, breaker, lease, cursors and parts, step by step against their promises."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from searchbus_bus.client.parts import Assembly, split
from searchbus_bus.store.lease import Lease
from searchbus_contracts import Fault
from searchbus_ddg.egress import LEASE_TTL_S, claim, egress_id
from searchbus_edge.auth.signing import CursorError, Cursors
from searchbus_edge.tools.limits import SharedLimiter
from searchbus_upstream.breaker import Breaker

from .seeds import quick_steps, slow_steps
from .world import VirtualLoop, World, virtual_time

SECONDS = st.floats(0.01, 20.0)
SEEDS = st.integers(0, 2**32 - 1)


class Clocked(RuleBasedStateMachine):
    """A machine with a virtual clock; coroutines run on it to their end."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.world = World(0, self.loop)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        with virtual_time(self.loop):
            return self.loop.run_until_complete(work)

    @rule(seconds=SECONDS)
    def pass_time(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    def teardown(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.run(asyncio.sleep(0))
        self.loop.close()


class LimiterMachine(Clocked):
    """Three edges count one caller; the store comes and goes, edges restart."""

    RATE_PER_S, BURST, EDGES = 10.0, 12, 3

    def __init__(self) -> None:
        super().__init__()
        self.store = self.world.store(ttl_s=3600)
        self.edges = [self.new_edge() for _ in range(self.EDGES)]
        self.admitted = 0
        self.allowances = 1
        self.started_s = self.loop.time()

    def new_edge(self) -> SharedLimiter:
        return SharedLimiter(
            "calls", self.store, self.RATE_PER_S, self.BURST, clock=self.world.now_s,
            edges=lambda: self.EDGES,
        )  # fmt: skip

    @rule(edge=st.integers(0, EDGES - 1), calls=st.integers(1, 30))
    def call(self, edge: int, calls: int) -> None:
        async def admit() -> bool:
            try:
                await self.edges[edge].admit("caller")
            except Fault as fault:
                assert fault.code == "rate_limited"
                assert fault.failure.retry_after_ms
                return False
            return True

        async def every() -> list[bool]:
            return await asyncio.gather(*(admit() for _ in range(calls)))

        self.admitted += sum(self.run(every()))

    @rule(delay_s=st.sampled_from([0.0, 0.01, 0.5]), failing=st.sampled_from([0.0, 0.3]))
    def disturb(self, delay_s: float, failing: float) -> None:
        self.store.longest_delay_s, self.store.failing = delay_s, failing
        self.allowances += 1

    @rule()
    def lose_or_find_the_store(self) -> None:
        self.store.away = not self.store.away
        self.allowances += 1

    @rule(edge=st.integers(0, EDGES - 1))
    def restart(self, edge: int) -> None:
        self.edges[edge] = self.new_edge()
        self.allowances += 1

    @invariant()
    def no_more_than_the_limit(self) -> None:
        """Each disturbance may cost one burst, not more."""
        elapsed_s = self.loop.time() - self.started_s
        assert self.admitted <= self.RATE_PER_S * elapsed_s + self.BURST * self.allowances

    @precondition(lambda self: not self.store.away)
    @rule()
    def a_caller_that_waited_is_admitted(self) -> None:
        self.store.longest_delay_s = self.store.failing = 0.0
        self.run(asyncio.sleep(self.BURST / self.RATE_PER_S * self.EDGES + 1))
        self.run(self.edges[0].admit("caller"))
        self.admitted += 1


class BreakerMachine(Clocked):
    """One probe at a time, cooldowns that grow to their limit."""

    COOLDOWN_S, MAX_S = 5.0, 60.0

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker(max_cooldown_s=self.MAX_S, clock=self.world.now_s)
        self.probing = False
        self.last_s = 0.0

    @rule()
    def request_is_refused(self) -> None:
        was_open = not (self.breaker.closed or self.probing or self.breaker.suspected)
        before_s = self.breaker.open_until_s
        cooldown_s = self.breaker.refused(self.COOLDOWN_S)
        assert 0 <= cooldown_s <= self.MAX_S
        if was_open:
            assert self.breaker.open_until_s == before_s, "a late answer extends nothing"
        else:
            self.last_s, self.probing = cooldown_s, False
            assert not self.breaker.closed

    @rule()
    def page_is_empty(self) -> None:
        was_closed = self.breaker.closed
        self.breaker.suspect(1.0)
        assert self.breaker.suspected == was_closed or not was_closed

    @rule()
    def probe(self) -> None:
        allowed = self.breaker.try_probe()
        assert not (allowed and self.probing), "one probe at a time"
        assert not (allowed and self.breaker.remaining_s > 0), "none before the cooldown ends"
        self.probing = self.probing or allowed

    @precondition(lambda self: self.probing)
    @rule(outcome=st.sampled_from(["succeeded", "abandon", "refused"]))
    def probe_ends(self, outcome: str) -> None:
        if outcome == "refused":
            before_s = self.last_s
            self.last_s = self.breaker.refused(self.COOLDOWN_S)
            assert self.last_s >= min(before_s, self.MAX_S) or before_s == 0
        else:
            getattr(self.breaker, outcome)()
        self.probing = False
        if outcome == "succeeded":
            self.last_s = 0.0
            assert self.breaker.closed

    @invariant()
    def usable_says_the_same_as_its_parts(self) -> None:
        breaker = self.breaker
        assert not (breaker.usable and breaker.remaining_s > 0)
        assert breaker.closed == (breaker.open_until_s == 0)


class LeaseMachine(Clocked):
    """Four workers, two addresses: never two workers that both rightly hold one."""

    WORKERS = 4
    EGRESSES = ("bind:127.0.0.11", "bind:127.0.0.12")

    def __init__(self) -> None:
        super().__init__()
        self.leases = self.world.store(ttl_s=LEASE_TTL_S)
        self.held: dict[int, tuple[str, Lease, float]] = {}
        """Worker → address, lease, when it was last confirmed."""
        self.starts = 0

    @rule(worker=st.integers(0, WORKERS - 1))
    def start(self, worker: int) -> None:
        if worker in self.held or self.leases.away:
            return
        self.starts += 1
        holder = f"{worker}-{self.starts}"
        asked_s = self.loop.time()
        egress = self.run(claim(self.leases, self.EGRESSES, holder, index=worker, place="p"))
        if egress is not None:
            lease = Lease(self.leases, egress_id(egress, "p"), holder.encode())
            self.held[worker] = (egress, lease, asked_s)

    @rule(worker=st.integers(0, WORKERS - 1))
    def refresh(self, worker: int) -> None:
        if worker not in self.held:
            return
        egress, lease, _ = self.held[worker]
        asked_s = self.loop.time()
        try:
            lost = self.run(lease.write()) is not None
        except Fault:
            return
        if lost:
            del self.held[worker]
        else:
            self.held[worker] = (egress, lease, asked_s)

    @rule(worker=st.integers(0, WORKERS - 1), crash=st.booleans())
    def stop(self, worker: int, crash: bool) -> None:
        held = self.held.pop(worker, None)
        if held is not None and not crash:
            self.run(held[1].release())

    @rule()
    def lose_or_find_the_store(self) -> None:
        self.leases.away = not self.leases.away

    @invariant()
    def one_holder_of_an_address(self) -> None:
        now_s = self.loop.time()
        sure = [e for e, _, at_s in self.held.values() if now_s - at_s < LEASE_TTL_S]
        assert len(sure) == len(set(sure))

    @precondition(lambda self: not self.leases.away)
    @rule()
    def address_of_dead_workers_is_free_again(self) -> None:
        self.held.clear()
        self.run(asyncio.sleep(LEASE_TTL_S + 1))
        self.starts += 1
        holder = f"new-{self.starts}"
        assert self.run(claim(self.leases, self.EGRESSES, holder, index=0, place="p")) is not None
        self.run(asyncio.sleep(LEASE_TTL_S + 1))


class CursorMachine(RuleBasedStateMachine):
    """A cursor is valid in its own list only, unchanged, and holds what was put in."""

    def __init__(self) -> None:
        super().__init__()
        self.edges = [Cursors(b"k" * 32), Cursors(b"k" * 32)]
        self.stranger = Cursors(b"s" * 32)
        self.issued: list[tuple[str, dict[str, Any], tuple[str, ...]]] = []

    @rule(
        after=st.text(max_size=30),
        page=st.integers(0, 10**6),
        bound=st.tuples(st.text(), st.text()),
    )
    def issue(self, after: str, page: int, bound: tuple[str, str]) -> None:
        state = json.loads(json.dumps({"after": after, "page": page}))
        self.issued.append((self.edges[page % 2].issue(state, *bound), state, bound))

    @precondition(lambda self: self.issued)
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        cursor, state, bound = data.draw(st.sampled_from(self.issued))
        for edge in self.edges:
            assert edge.read(cursor, *bound) == state

    @precondition(lambda self: self.issued)
    @rule(data=st.data(), other=st.tuples(st.text(), st.text()))
    def misuse(self, data: st.DataObject, other: tuple[str, str]) -> None:
        cursor, _, bound = data.draw(st.sampled_from(self.issued))
        if other != bound:
            with pytest.raises(CursorError):
                self.edges[0].read(cursor, *other)
        with pytest.raises(CursorError):
            self.stranger.read(cursor, *bound)
        place = data.draw(st.integers(0, len(cursor) - 2))
        letter = "A" if cursor[place] != "A" else "B"
        with pytest.raises(CursorError):
            self.edges[1].read(cursor[:place] + letter + cursor[place + 1 :], *bound)
        with pytest.raises(CursorError):
            self.edges[1].read(cursor[:place], *bound)


class PartsMachine(RuleBasedStateMachine):
    """Parts in any order, doubled or exchanged: the body, or nothing yet, or a typed error."""

    def __init__(self) -> None:
        super().__init__()
        self.begin(b"body", 1)

    @rule(body=st.binary(min_size=1, max_size=300), size=st.integers(1, 100))
    def begin(self, body: bytes, size: int) -> None:
        self.body = body
        self.parts = [bytes(part) for part in split(body, size)]
        digest = hashlib.sha256(body).hexdigest()
        self.assembly = Assembly(len(self.parts), len(body), digest)
        self.given: dict[int, bytes] = {}

    @rule(data=st.data())
    def part_arrives(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.parts) - 1))
        self.give(index, self.parts[index])

    @rule(data=st.data(), other=st.binary(max_size=100))
    def other_part_arrives(self, data: st.DataObject, other: bytes) -> None:
        self.give(data.draw(st.integers(0, len(self.parts) - 1)), other)

    @rule(index=st.sampled_from([-1, 10**6]))
    def part_of_nothing_arrives(self, index: int) -> None:
        with pytest.raises(Fault):
            self.assembly.add(index, b"x")

    def give(self, index: int, part: bytes) -> None:
        self.given[index] = part
        right = all(self.parts[number] == given for number, given in self.given.items())
        complete = len(self.given) == len(self.parts)
        try:
            body = self.assembly.add(index, part)
        except Fault:
            assert not right
            self.begin(self.body, len(self.parts[0]))
            return
        assert body == (self.body if complete else None)
        assert right or not complete
        if complete:
            self.begin(self.body, len(self.parts[0]))


MACHINES = [LimiterMachine, BreakerMachine, LeaseMachine, CursorMachine, PartsMachine]


@pytest.mark.parametrize("machine", MACHINES)
def test_machine(machine):
    """A few runs."""
    run_state_machine_as_test(machine, settings=quick_steps)


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
def test_machine_for_long(machine):
    """Many runs of many steps."""
    run_state_machine_as_test(machine, settings=slow_steps)

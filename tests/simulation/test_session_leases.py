"""Leases of callers' sessions, step by step: two workers are never both sure of one session."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from searchbus_attach.sessions.leases import LEASE_TTL_S, Holder, Leases, SessionLease, lease_key
from searchbus_contracts import Fault

from .seeds import quick_steps, slow_steps
from .test_machines import Clocked

WORKERS = st.integers(0, 2)
KEYS = st.sampled_from([lease_key("browser", caller) for caller in ("ann", "bob")])


class SessionLeaseMachine(Clocked):
    """Three workers share two callers; workers crash, and the store is slow, fails and goes away."""

    def __init__(self) -> None:
        super().__init__()
        self.store = self.world.store(ttl_s=LEASE_TTL_S)
        self.starts = 0
        self.alive: list[tuple[str, Leases]] = []
        for _ in range(3):
            self.alive.append(self.new_worker())

    def new_worker(self) -> tuple[str, Leases]:
        self.starts += 1
        name = f"worker-{self.starts}"
        leases = Leases(self.store, clock=self.loop.time)
        self.run(self.started(leases, name))
        return name, leases

    async def started(self, leases: Leases, name: str) -> None:
        leases.start(name)
        await leases.stop()  # the machine says when it renews

    async def look(self, worker: int, key: str) -> SessionLease | Holder | None:
        """What a call does at a worker."""
        _, leases = self.alive[worker]
        place = await leases.take(key, lambda _: None)
        if isinstance(place, Holder) and place.instance not in dict(self.alive):
            return await leases.take_over(key, place, lambda _: None)
        return place

    async def renewed(self, worker: int) -> None:
        with suppress(Fault):
            await self.alive[worker][1].renew()

    @rule(worker=WORKERS, key=KEYS)
    def call(self, worker: int, key: str) -> None:
        with suppress(Fault):
            self.run(self.look(worker, key))

    @rule(key=KEYS, renews=WORKERS)
    def calls_at_once(self, key: str, renews: int) -> None:
        async def all_of_them() -> None:
            calls = [self.look(worker, key) for worker in range(3) for _ in range(2)]
            await asyncio.gather(*calls, self.renewed(renews), return_exceptions=True)

        self.run(all_of_them())

    @rule(worker=WORKERS)
    def renew(self, worker: int) -> None:
        self.run(self.renewed(worker))

    @rule(worker=WORKERS, key=KEYS)
    def end(self, worker: int, key: str) -> None:
        _, leases = self.alive[worker]
        lease = leases._held.get(key)
        if lease is not None:
            self.run(leases.release(lease))

    @rule(worker=WORKERS)
    def crash(self, worker: int) -> None:
        self.alive[worker] = self.new_worker()

    @rule(away=st.booleans(), failing=st.sampled_from([0.0, 0.3]), delay_s=st.floats(0.0, 1.0))
    def change_the_store(self, away: bool, failing: float, delay_s: float) -> None:
        self.store.away, self.store.failing = away, failing
        self.store.longest_delay_s = delay_s

    @invariant()
    def one_worker_is_sure(self) -> None:
        sure = [
            key
            for _, leases in self.alive
            for key, lease in leases._held.items()
            if leases.is_valid(lease)
        ]
        assert len(sure) == len(set(sure))

    @precondition(lambda self: not self.store.away and not self.store.failing)
    @rule(key=KEYS)
    def all_agree_once_the_store_is_there(self, key: str) -> None:
        self.run(asyncio.sleep(LEASE_TTL_S + 1))
        for worker in range(3):
            self.run(self.renewed(worker))
        places = [self.run(self.look(worker, key)) for worker in range(3)]
        holders = {place.instance for place in places if isinstance(place, Holder)}
        (lease,) = (place for place in places if isinstance(place, SessionLease))
        (name,) = (name for name, leases in self.alive if leases._held.get(key) is lease)
        assert holders == {name}


def test_session_leases():
    """A few runs."""
    run_state_machine_as_test(SessionLeaseMachine, settings=quick_steps)


@pytest.mark.slow
def test_session_leases_for_long():
    """Many runs of many steps."""
    run_state_machine_as_test(SessionLeaseMachine, settings=slow_steps)

"""Servers that keep state in a session: one for each caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from searchbus_attach.sessions.callers import Callers
from searchbus_attach.sessions.leases import Leases
from searchbus_attach.upstream.connection import Surroundings
from searchbus_attach.upstream.upstream import Upstream
from searchbus_bus import MemoryBroker
from searchbus_contracts import ErrorCode, Fault
from searchbus_testing import until

from ..conftest import children, plain
from ..upstream.test_upstream import Caller, text


@pytest.fixture
async def new_callers(tmp_path) -> AsyncIterator:
    around = Surroundings(logs=tmp_path / "logs")
    bus = MemoryBroker().connect()
    leases = await Leases.over(bus)
    leases.start("here")
    made: list[Callers] = []

    def new(check=None, **keys) -> Callers:
        server = plain({}, state="stateful", **keys)
        made.append(
            Callers(
                server, lambda _: Upstream(server, around, on_list=lambda _: None), leases, check
            )
        )
        return made[-1]

    yield new
    for callers in made:
        await callers.stop()
    assert children() == []
    assert len(leases) == 0
    await leases.stop()
    around.reaper.close()


async def test_each_caller_has_a_process_of_its_own(new_callers):
    """The same one for all calls."""
    callers = new_callers()
    for name in ("ann", "bob", "ann"):
        assert text(await (await callers.of(name)).call(Caller(), "echo", {"text": name})) == name
    assert (len(callers), len(children())) == (2, 2)


async def test_the_connection_that_was_used_least_recently_makes_space(new_callers):
    """Where as many callers as there may be have one."""
    callers = new_callers(max_callers=2)
    for name in ("ann", "bob", "ann", "eve"):
        await (await callers.of(name)).call(Caller(), "echo", {"text": "x"})
    assert set(callers._sessions) == {"ann", "eve"}
    await until(lambda: len(children()) == 2)


async def test_who_cannot_use_the_server_takes_nobodys_place(new_callers):
    """Such as a caller who is not signed in."""

    async def check(caller: str) -> None:
        if caller != "ann":
            raise Fault(ErrorCode.LOGIN_REQUIRED, "sign in")

    callers = new_callers(check, max_callers=1)
    await (await callers.of("ann")).call(Caller(), "echo", {"text": "x"})
    with pytest.raises(Fault, match="sign in"):
        await callers.of("bob")
    assert set(callers._sessions) == {"ann"}


async def test_connections_with_calls_are_not_closed(new_callers):
    """A further caller fails at once."""
    callers = new_callers(max_callers=1)
    upstream = await callers.of("ann")
    running = asyncio.create_task(upstream.call(Caller(), "slow", {}))
    await until(lambda: callers.in_flight == 1)
    with pytest.raises(Fault, match="for 1 callers") as fault:
        await callers.of("bob")
    assert fault.value.code == ErrorCode.OVERLOADED
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_after_its_end_no_connection_is_opened(new_callers):
    """For a call that comes while the server's declaration changes; the lease is left to others."""
    callers = new_callers()
    await callers.stop()
    with pytest.raises(Fault) as fault:
        await callers.of("ann")
    assert (fault.value.code, fault.value.failure.retryable) == (ErrorCode.UNAVAILABLE, True)
    assert children() == []


async def test_what_a_caller_does_not_use_is_closed(new_callers):
    """After the idle time."""
    callers = new_callers(idle_s=0.2)
    await (await callers.of("ann")).call(Caller(), "echo", {"text": "x"})

    async def closed() -> bool:
        callers.end_unused()
        return not len(callers) and not children()

    await until(closed)

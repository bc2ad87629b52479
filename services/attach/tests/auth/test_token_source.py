"""When a token is kept, when it is replaced, and by how many requests."""

from __future__ import annotations

import asyncio

import pytest

from searchbus_attach.auth import credentials as module
from searchbus_attach.auth.credentials import TokenSource
from searchbus_attach.auth.vault import Tokens
from searchbus_attach.errors import AuthError


class World:
    """A clock, and an issuer of tokens that live 100 seconds."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.fault: AuthError | None = None
        self.asked: list[str] = []
        self.version = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.source = TokenSource(
            self.fetch, clock=lambda: self.now_s, version=lambda: self.version
        )

    async def fetch(self, rejected: str) -> Tokens:
        self.asked.append(rejected)
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        return Tokens(
            access_token=f"t{len(self.asked)}", issued_s=self.now_s, expires_s=self.now_s + 100
        )


@pytest.fixture
def world() -> World:
    return World()


async def test_a_token_is_kept_until_shortly_before_its_end(world):
    """Ten seconds of a hundred."""
    assert await world.source.token() == "t1"
    world.now_s += 89
    assert await world.source.token() == "t1"
    world.now_s += 2
    assert await world.source.token() == "t2"


async def test_many_who_ask_at_once_cause_one_request(world):
    """Also when the one that asked is cancelled: a refresh token counts once."""
    world.gate.clear()
    tasks = [asyncio.create_task(world.source.token()) for _ in range(20)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.wait([tasks[0]])
    world.gate.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert set(found[1:]) == {"t1"}
    assert world.asked == [""]


async def test_a_request_that_nobody_waits_for_is_settled_before_the_end(world):
    """Its answer is kept."""
    world.gate.clear()
    task = asyncio.create_task(world.source.token())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    settled = asyncio.create_task(world.source.settle())
    world.gate.set()
    await settled
    assert await world.source.token() == "t1"
    assert world.asked == [""]


async def test_a_request_that_hangs_is_given_up_at_the_end(world, monkeypatch):
    """The service must stop."""
    monkeypatch.setattr(module, "_SETTLE_S", 0.01)
    world.gate.clear()
    task = asyncio.create_task(world.source.token())
    await asyncio.sleep(0)
    await world.source.settle()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_failure_that_took_long_is_the_answer_for_those_who_waited(world):
    """They do not ask one after the other."""
    world.gate.clear()
    world.fault = AuthError("no")
    tasks = [asyncio.create_task(world.source.token()) for _ in range(20)]
    await asyncio.sleep(0)
    world.now_s += 30
    world.gate.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert {str(fault) for fault in found} == {"no"}
    assert len(world.asked) == 1


async def test_a_rejected_token_is_replaced_once(world):
    """For all whose requests had it."""
    token = await world.source.token()
    world.now_s += 20
    renewed = await asyncio.gather(*(world.source.token(token) for _ in range(20)))
    assert set(renewed) == {"t2"}
    assert world.asked == ["", "t1"]


async def test_a_new_token_that_is_rejected_is_not_replaced(world):
    """The next one would be rejected as well."""
    token = await world.source.token()
    assert await world.source.token(token) == token
    assert len(world.asked) == 1


async def test_a_clock_that_is_set_back_keeps_no_failure(world):
    """Neither a rejected token for as long; the clock of a machine that sleeps may be ahead."""
    token = await world.source.token()
    world.now_s -= 500
    assert await world.source.token(token) == "t2"
    world.fault = AuthError("it is away")
    world.now_s += 200
    with pytest.raises(AuthError):
        await world.source.token("t2")
    world.fault = None
    world.now_s -= 100
    assert await world.source.token("t2") == "t4"


async def test_a_failure_is_the_answer_for_two_seconds(world):
    """Then there is another request."""
    world.fault = AuthError("no")
    depths = []
    for _ in range(3):
        with pytest.raises(AuthError) as fault:
            await world.source.token()
        depths.append(len(fault.traceback))
    assert len(world.asked) == 1
    assert depths[1] == depths[2]
    world.now_s += 3
    world.fault = None
    assert await world.source.token() == "t2"


async def test_a_token_that_lives_is_used_while_no_other_can_be_got(world):
    """Until its end."""
    await world.source.token()
    world.fault = AuthError("no")
    world.now_s += 95
    assert [await world.source.token() for _ in range(3)] == ["t1"] * 3
    assert len(world.asked) == 2
    world.now_s += 6
    with pytest.raises(AuthError):
        await world.source.token()


async def test_a_rejected_token_is_not_used_when_no_other_can_be_got(world):
    """Nor by others."""
    token = await world.source.token()
    world.now_s += 20
    world.fault = AuthError("no")
    with pytest.raises(AuthError):
        await world.source.token(token)
    with pytest.raises(AuthError):
        await world.source.token()


async def test_another_version_forgets_the_token_and_the_failure(world):
    """Somebody signed in or out."""
    await world.source.token()
    world.version += 1
    assert await world.source.token() == "t2"
    world.fault = AuthError("no")
    world.version += 1
    with pytest.raises(AuthError):
        await world.source.token()
    world.fault, world.version = None, world.version + 1
    assert await world.source.token() == "t4"

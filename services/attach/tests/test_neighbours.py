"""Nineteen servers beside one that harms whoever attaches it, in each of its ways."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from searchbus_attach.upstream import connection
from searchbus_contracts import Fault
from searchbus_testing import until

from .conftest import World, plain_keys

PROGRAM = Path(__file__).with_name("programs") / "hostile_server.py"
GOOD = [f"good{number}" for number in range(19)]
MAX_GROWTH_BYTES = 250 * 2**20
"""Ten servers with a message of the largest size have less; before there was a budget, one way
took 800 MiB."""


@pytest.fixture
def hostile(tmp_path) -> Iterator[Callable[..., dict[str, Any]]]:
    """The keys of a hostile server: `hostile("flood")`, and `hostile("events", http=True)`."""
    processes: list[subprocess.Popen[bytes]] = []

    def keys(way: str, *, http: bool = False) -> dict[str, Any]:
        program = ["-I", "-S", str(PROGRAM), way]
        if not http:
            return {"command": sys.executable, "args": program, "policy": "accept"}
        url_file = tmp_path / "url"
        processes.append(subprocess.Popen([sys.executable, *program, str(url_file)]))
        while not (url_file.exists() and url_file.read_text()):
            assert processes[-1].poll() is None
        return {"url": url_file.read_text(), "policy": "accept"}

    yield keys
    for process in processes:
        process.kill()
        process.wait()


async def attack(world: World) -> None:
    """Call the hostile server again and again, whatever comes back."""
    while True:
        with suppress(Fault):
            await world.call("hostile", "act", timeout_s=5.0)
        await asyncio.sleep(0.05)


async def answers_of_the_others(world: World, calls: int) -> int:
    """How many calls of the other servers are answered."""

    async def ask(name: str, number: int) -> bool:
        reply = await world.call(name, "echo", text=f"{name} {number}")
        return bool(reply.content[0].text == f"{name} {number}")

    found = 0
    for number in range(calls):
        found += sum(await asyncio.gather(*(ask(name, number) for name in GOOD)))
    return found


async def state_of_hostile(world: World) -> Any:
    """What the operator sees."""
    (found,) = (await world.status("hostile")).servers
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "http"),
    [
        ("flood", False), ("giant", False), ("values", False), ("slow", False),
        ("garbage", False), ("schema", False), ("logs", False), ("events", False),
        ("crash", False), ("forks", False), ("spins", False), ("hang", False),
        ("flood", True), ("giant", True), ("values", True), ("logs", True), ("events", True),
        ("cookies", True), ("redirects", True), ("hang", True),
    ],
)  # fmt: skip
async def test_a_hostile_server_costs_the_others_nothing(new_world, hostile, way, http):
    """They answer every call, and the service does not grow."""
    servers = {name: plain_keys() for name in GOOD}
    world = await new_world(**servers, hostile=hostile(way, http=http))
    for name in GOOD:
        await world.until_up(name)

    async def listed() -> bool:
        return (await state_of_hostile(world)).state == "up"

    await until(listed)
    process = psutil.Process()
    before_bytes = process.memory_info().rss
    attacking = asyncio.create_task(attack(world))
    try:
        assert await answers_of_the_others(world, 30) == 30 * len(GOOD)
        assert process.memory_info().rss - before_bytes < MAX_GROWTH_BYTES
    finally:
        attacking.cancel()
        await asyncio.gather(attacking, return_exceptions=True)


@pytest.mark.parametrize(
    ("way", "http"),
    [("flood", False), ("logs", False), ("events", False), ("flood", True), ("events", True)],
)
async def test_a_server_that_sends_too_much_is_held(new_world, hostile, way, http):
    """Callers are told which one, and when it is tried again; the operator sees how much."""
    world = await new_world(hostile=hostile(way, http=http))
    await world.until_up("hostile")
    with suppress(Fault):
        await world.call("hostile", "act", timeout_s=5.0)

    async def held() -> bool:
        return "it is held" in (await state_of_hostile(world)).problem

    await until(held)
    with pytest.raises(Fault, match="hostile cannot be used now: it is held") as fault:
        await world.call("hostile", "act")
    assert 0 < fault.value.failure.retry_after_ms <= 60_000
    assert (await state_of_hostile(world)).dropped >= 5


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes cannot be counted")
async def test_a_command_that_starts_too_many_processes_is_ended(new_world, hostile):
    """With all of them; the operator sees why."""
    world = await new_world(hostile={**hostile("forks"), "processes": 20})
    await world.until_up("hostile")
    with suppress(Fault):
        await world.call("hostile", "act", timeout_s=5.0)

    async def ended() -> bool:
        problem = (await state_of_hostile(world)).problem
        return "it was ended, because it started more than 20 processes" in problem

    await until(ended)


@pytest.mark.parametrize("http", [False, True])
async def test_a_server_that_hangs_is_named(new_world, hostile, monkeypatch, http):
    """To its caller, long before the deadline; the operator is told what to do."""
    monkeypatch.setattr(connection, "SILENT_S", 0.2)
    world = await new_world(hostile={**hostile("hang", http=http), "ping_timeout_s": 0.5})
    await world.until_up("hostile")
    with pytest.raises(Fault, match="hostile answered neither a ping nor this call"):
        await world.call("hostile", "act", timeout_s=600)

    async def restarted() -> bool:
        return (await state_of_hostile(world)).restarts == 1

    await until(restarted)


@pytest.mark.parametrize("http", [False, True])
async def test_an_answer_with_too_many_values_is_refused(new_world, hostile, http):
    """Before it is parsed; the server stays, until that were too many."""
    world = await new_world(hostile=hostile("values", http=http))
    await world.until_up("hostile")
    with pytest.raises(Fault, match=r"hostile failed: .*more than 200,000 values"):
        await world.call("hostile", "act")
    found = await state_of_hostile(world)
    assert (found.state, found.dropped) == ("up", 1)

"""The watch of the event loop names the request that held it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from queue import Queue

from searchbus_bus import Call, Worker, endpoint, loop_watch
from searchbus_bus.loop_watch import LoopWatch, serves
from searchbus_testing import until

from .echo import EchoReply, EchoRequest, call_echo

HELD_S = 0.05
looks: Queue[None] = Queue()


@contextmanager
def watching(**options: float) -> Iterator[None]:
    watch = LoopWatch(**options)
    watch.start()
    try:
        yield
    finally:
        watch.stop()


def _described(names: Mapping[str, int]) -> str:
    looks.put(None)
    return f"call {names['number']}"


@serves(_described)
async def hold(number: int) -> None:
    """Hold the loop until the watch has looked, and has noted what it saw."""
    while not looks.empty():
        looks.get()
    for _ in range(3):
        looks.get(timeout=60)


@serves(lambda names: names["not_yet"])
async def outer(number: int) -> None:
    await hold(number)


def lines(caplog) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "searchbus.loop"]


async def test_a_long_turn_is_logged_with_its_request(caplog, monkeypatch):
    """The innermost first; one whose variables are not set yet by the function's name."""
    counted = []
    monkeypatch.setattr(loop_watch._held, "add", counted.append)
    with watching(held_s=HELD_S):
        await outer(7)
        await until(lambda: lines(caplog))
    (line,) = lines(caplog)
    assert "(call 7; outer)" in line
    assert counted == [0, 1]


async def test_lines_are_rare_and_say_how_many_were_left_out(caplog):
    """Each turn is counted all the same."""
    with watching(held_s=HELD_S, log_every_s=1e9):
        for number in range(3):
            await hold(number)
            await asyncio.sleep(4 * HELD_S)
    assert len(lines(caplog)) == 1


async def test_short_turns_are_no_event(caplog):
    """Whatever their number."""
    with watching(held_s=3600):
        for _ in range(1000):
            await asyncio.sleep(0)
    assert lines(caplog) == []


class Holding:
    """A service that holds its loop."""

    @endpoint
    async def stay(self, call: Call, request: EchoRequest) -> EchoReply:
        await hold(1)
        return EchoReply("done")


async def test_a_worker_that_holds_the_loop_is_named_by_subject_and_request(connect_bus, caplog):
    """By what travels with the request."""
    worker = Worker("echo")
    worker.add(Holding())
    await (await connect_bus()).serve(worker)
    with watching(held_s=HELD_S):
        await call_echo(await connect_bus(), "stay")
        await until(lambda: lines(caplog))
    assert re.search(r"\(call 1; t\w+\.v1\.echo\.stay, request [0-9a-f]{32}\)", lines(caplog)[0])

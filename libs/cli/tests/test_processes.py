"""Processes that are kept running, and stopped in order."""

from __future__ import annotations

import asyncio
import sys

import pytest

from searchbus_cli.children import Child
from searchbus_cli.errors import StackError
from searchbus_cli.processes import Processes
from searchbus_testing import until

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
async def processes():
    """They are stopped at the end."""
    starts: list[int] = []
    found = Processes(on_restart=lambda: starts.append(1))
    found.complete = True
    found.starts = starts
    yield found
    await found.stop()


async def test_every_start_is_reported_and_names_are_known(processes):
    """A process that was started again has another id."""
    child = Child("a", SLEEPS, verbose=False)
    processes.keep(child, "service")
    assert "a" in processes
    assert "b" not in processes
    await until(lambda: len(processes.starts) == 1, timeout_s=60)
    first = child.pid
    child.process.kill()
    await until(lambda: len(processes.starts) == 2 and child.pid != first, timeout_s=60)


async def test_processes_stop_by_their_kind(processes):
    """Edges first, NATS last, whatever was started first."""
    stopped = []

    class Recorded(Child):
        async def stop(self, timeout_s: float = 15.0) -> None:
            await super().stop(timeout_s)
            stopped.append(self.name)

    for kind in ("nats", "fakes", "service", "edge"):
        processes.keep(Recorded(kind, SLEEPS, verbose=False), kind)
    await until(lambda: len(processes.starts) == 4, timeout_s=60)
    await processes.stop()
    assert stopped == ["edge", "service", "fakes", "nats"]


async def test_condition_is_waited_for_until_the_time_is_over(processes):
    """Then the error says what to do."""
    asked = []

    async def third() -> bool:
        asked.append(1)
        return len(asked) == 3

    async def never() -> bool:
        return False

    await processes.wait_until(third, timeout_s=600, otherwise="")
    with pytest.raises(StackError, match="Look at the log"):
        await processes.wait_until(never, timeout_s=0, otherwise="Look at the log.")


async def test_process_that_cannot_run_ends_every_wait(processes):
    """Exit code 2 says that its settings are wrong."""

    async def never() -> bool:
        return False

    processes.keep(Child("b", [sys.executable, "-c", "raise SystemExit(2)"]), "service")
    async with asyncio.timeout(60):
        with pytest.raises(StackError, match="b ended with code 2"):
            await processes.wait(asyncio.Event())
        with pytest.raises(StackError, match="b ended with code 2"):
            await processes.wait_until(never, timeout_s=600, otherwise="")


async def test_wait_ends_when_it_is_told_to(processes):
    """And raises nothing."""
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, stop.set)
    await processes.wait(stop)

"""Two workers of attach on a secured bus: a caller has one session, also when its worker dies."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from mcp import Client, MCPError

from searchbus_testing import Stack, command_of, descendants, eventually, until

PROGRAM = Path(__file__).parents[1] / "e2e" / "attached_server.py"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def workers(start_stack, tmp_path_factory) -> Iterator[Stack]:
    """A stack with two workers and a server that keeps state."""
    data = tmp_path_factory.mktemp("workers")
    command = f"command = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(PROGRAM))}]\n"
    keys = f'{command}state = "stateful"\ncall_timeout_s = 20.0\n'
    (data / "attach.toml").write_text(f"[servers.weather]\n{keys}")
    stack = start_stack(data, "--secure", "--scale", "attach=2")
    assert {"attach", "attach-2"} <= stack.state["processes"].keys()

    def up() -> bool:
        done = stack.command("attach", "list", "--json")
        assert done.returncode == 0, done.stderr
        return [server["state"] for server in json.loads(done.stdout)] == ["up"]

    eventually(up, timeout_s=300)
    yield stack
    for name in ("attach", "attach-2"):
        log = (data / "logs" / f"{name}.log").read_text()
        assert "violation" not in log.lower(), log


async def process_of_session(stack: Stack) -> int:
    """The process of the caller's session; 0 where the call failed with a typed error."""
    async with Client(stack.url + "/mcp/weather", read_timeout_seconds=300.0) as client:
        found = await client.call_tool("process_id", {})
    text = found.content[0].text
    if found.is_error:
        assert "unavailable" in text or "deadline_exceeded" in text, text
        return 0
    return int(text)


def worker_of(stack: Stack, session: int) -> str:
    """The worker that has a session."""
    above = {process.pid for process in psutil.Process(session).parents()}
    processes = stack.state["processes"]
    return next(name for name in ("attach", "attach-2") if processes[name] in above)


def servers_of(stack: Stack) -> list[psutil.Process]:
    """The processes of the attached server."""
    return [p for p in descendants(stack.process.pid) if str(PROGRAM) in command_of(p)]


async def there(stack: Stack) -> bool:
    async with Client(stack.url + "/mcp/weather") as client:
        return bool((await client.list_tools()).tools)


async def test_all_requests_of_a_caller_reach_one_session(workers):
    """Calls with their progress, prompts and resources, whichever worker gets them."""

    async def listed() -> bool:
        try:
            return await there(workers)
        except (ExceptionGroup, MCPError):
            return False

    await until(listed, timeout_s=300)
    steps: list[float] = []

    async def on_progress(progress, total, message) -> None:
        steps.append(progress)

    async def answered() -> int:
        return await until(lambda: process_of_session(workers), timeout_s=300)

    first = await asyncio.gather(*(answered() for _ in range(8)))
    async with Client(workers.url + "/mcp/weather") as client:
        for _ in range(8):
            found = await client.call_tool(
                "forecast", {"city": "Oslo"}, progress_callback=on_progress
            )
            assert found.structured_content["city"] == "Oslo"
            prompt = await client.get_prompt("pack", {"city": "Rome"})
            assert "Rome" in prompt.messages[0].content.text
            uri = "searchbus://attach/weather/weather://map/Oslo"
            assert (await client.read_resource(uri)).contents
    assert steps == [1.0] * 8
    assert {*first, await answered()} == {first[0]}
    # One for each worker's list, and the session.
    await until(lambda: len(servers_of(workers)) == 3, timeout_s=300)


async def test_another_worker_takes_over_from_one_that_is_killed(workers):
    """In the middle of calls: each gets an answer or a typed error, and then there is one session."""
    before = await process_of_session(workers)
    name = worker_of(workers, before)
    killed = workers.state["processes"][name]
    calling = True

    async def call() -> list[int]:
        found = []
        while calling:
            found.append(await process_of_session(workers))
        return found

    calls = [asyncio.create_task(call()) for _ in range(4)]
    await asyncio.sleep(1.0)
    os.kill(killed, signal.SIGKILL)

    async def moved() -> bool:
        return await process_of_session(workers) not in (0, before)

    await until(moved, timeout_s=300)
    await until(lambda: workers.state["processes"][name] != killed, timeout_s=300)
    calling = False
    answers = {pid for found in await asyncio.gather(*calls) for pid in found} - {0, before}
    after = await process_of_session(workers)
    assert answers == {after}
    await until(lambda: not psutil.pid_exists(before), timeout_s=300)
    assert worker_of(workers, after) != name

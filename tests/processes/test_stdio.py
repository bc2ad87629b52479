"""`searchbus stdio` as desktop hosts start it: several at once, killed, on a stack that moves."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

from searchbus_testing import SEARCHBUS, alive, descendants, until

STACK_TIMEOUT_S = 600.0


@asynccontextmanager
async def host(data: Path, *arguments: str):
    """A client of `searchbus stdio`."""
    parameters = StdioServerParameters(
        command=str(SEARCHBUS), args=["stdio", "--data", str(data), *arguments],
        env={**os.environ, "SEARCHBUS_EMBEDDER": "hash"},
    )  # fmt: skip
    async with Client(parameters) as client:
        yield client


async def tools(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


def processes(data: Path) -> dict[str, int]:
    """Of the stack on a folder, with `up` itself; empty where none runs."""
    try:
        found = json.loads((data / "state.json").read_text())
    except OSError:
        return {}
    return {**found["processes"], "up": found["pid"]}


def hosts_process(data: Path) -> psutil.Process:
    """The only `searchbus stdio` on a folder."""
    (found,) = [
        process
        for process in descendants(os.getpid())
        if {"stdio", str(data)} <= set(process.cmdline())
    ]
    return found


@pytest.mark.slow
async def test_two_hosts_start_at_once_and_share_one_stack(tmp_path):
    """On an empty folder. It runs what they need, and ends with the second of them."""
    data = tmp_path / "new" / "data"
    together = asyncio.Barrier(2)
    first_left = asyncio.Event()

    async def first() -> None:
        async with host(data, "--toolset", "ddg") as client:
            assert await tools(client) == {"web_search", "instant_answer"}
            assert "dev.searchbus/search" in client.server_capabilities.extensions
            await together.wait()
        first_left.set()

    async def second() -> dict[str, int]:
        async with host(data, "--toolset", "fomc") as client:
            assert await tools(client) == {"search_fomc", "get_document"}
            await together.wait()
            await first_left.wait()
            result = await client.call_tool("search_fomc", {"query": "rates"})
            assert result.content[0].text.startswith("empty_corpus: ")
            return processes(data)

    async with asyncio.timeout(STACK_TIMEOUT_S):
        _, pids = await asyncio.gather(first(), second())
    assert {"up", "nats", "edge", "ddg", "retrieval", "toolindex"} == set(pids)
    await until(lambda: not alive(pids.values()), timeout_s=300)
    assert processes(data) == {}


async def test_killed_host_leaves_nothing_behind(tmp_path):
    """It cannot say goodbye: the kernel closes its end of the pipe."""
    async with asyncio.timeout(STACK_TIMEOUT_S), host(tmp_path, "--toolset", "ddg") as client:
        await tools(client)
        pids = processes(tmp_path)
        assert len(alive(pids.values())) == len(pids)
        hosts_process(tmp_path).send_signal(signal.SIGKILL)
        await until(lambda: not alive(pids.values()), timeout_s=300)


@pytest.mark.slow
async def test_stack_of_up_stays_and_is_found_again_on_another_port(start_stack, tmp_path):
    """A call in between is answered with a typed error, later ones as before."""
    stack = await asyncio.to_thread(start_stack, tmp_path)
    first = stack.state
    async with asyncio.timeout(2 * STACK_TIMEOUT_S), host(tmp_path, "--toolset", "fomc") as client:
        assert await tools(client) == {"search_fomc", "get_document"}
        await asyncio.to_thread(stack.stop)
        away = await client.call_tool("search_fomc", {"query": "rates"})
        assert away.is_error
        assert away.structured_content["error"]["code"] in ("unavailable", "deadline_exceeded")
        await asyncio.to_thread(stack.start)
        assert first["nats_url"] != stack.state["nats_url"]

        async def answers() -> bool:
            try:
                result = await client.call_tool("search_fomc", {"query": "rates"})
            except MCPError as error:  # forgotten: it was away for more than a minute
                assert error.error.message.startswith("Unknown tool")
                return False
            return result.content[0].text.startswith("empty_corpus: ")

        while not await answers():
            await asyncio.sleep(0.2)
    assert len(alive(stack.state["processes"].values())) == len(stack.state["processes"])


@pytest.mark.slow
async def test_own_stack_that_was_killed_is_started_again(tmp_path):
    """By the client that still needs it."""
    async with asyncio.timeout(STACK_TIMEOUT_S), host(tmp_path, "--toolset", "ddg") as client:
        await tools(client)
        first = processes(tmp_path)
        os.kill(first["up"], signal.SIGKILL)
        await until(
            lambda: processes(tmp_path).get("up", first["up"]) != first["up"], timeout_s=300
        )
        assert await tools(client) == {"web_search", "instant_answer"}
    second = processes(tmp_path)
    await until(lambda: not alive(second.values()), timeout_s=300)


@pytest.mark.parametrize("toolset", ["nope", "nope\nmore"])
async def test_unknown_toolset_is_refused_by_a_running_stack_too(start_stack, tmp_path, toolset):
    """With the toolsets that it has."""
    stack = await asyncio.to_thread(start_stack, tmp_path)
    done = await asyncio.to_thread(stack.command, "stdio", "--toolset", toolset)
    assert done.returncode == 1
    assert "There is no toolset nope" in done.stderr
    assert "fomc" in done.stderr

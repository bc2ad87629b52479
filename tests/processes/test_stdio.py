"""`searchbus stdio` as desktop hosts start it: several at once, killed, on a stack that moves."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import subprocess
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from subprocess import PIPE
from typing import Any

import psutil
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

from searchbus_testing import SEARCHBUS, alive, command_of, descendants, eventually, until

ROOT = Path(__file__).parents[2]

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
        if {"stdio", str(data)} <= set(command_of(process))
    ]
    return found


class Host:
    """A host that writes and reads lines itself, with an empty home folder.

    Args:
        home: also of the data folder, where `arguments` name no other one.
    """

    def __init__(self, home: Path, *command: str | Path, **environment: str) -> None:
        home.mkdir(exist_ok=True)
        self.mark = str(home)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SEARCHBUS_DATA", "XDG_"))}
        self.process = subprocess.Popen(
            command or [SEARCHBUS, "stdio"], cwd=home, stdin=PIPE, stdout=PIPE,
            env=kept | {"HOME": str(home), **environment},
        )  # fmt: skip

    def send(self, method: str, identity: int | None = None, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if identity is not None:
            message["id"] = identity
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self, identity: int) -> dict[str, Any]:
        """The result of a request; other messages before it are left out."""
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == identity:
                return message["result"]
        raise AssertionError("the process has ended")

    def initialize(self) -> dict[str, Any]:
        self.send(
            "initialize", 1, protocolVersion="2025-06-18", capabilities={},
            clientInfo={"name": "t", "version": "1"},
        )  # fmt: skip
        found = self.answer(1)
        self.send("notifications/initialized")
        return found

    def left(self) -> list[int]:
        """The processes of this host and of all that it started, however they descend from it."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("HOME") == self.mark:
                    found.append(process.pid)
        return found


@contextmanager
def starts_are_held(data: Path):
    """No client starts a stack on the folder meanwhile: it waits for the lock."""
    data.mkdir(parents=True, exist_ok=True)
    with (data / "stdio.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def ask_and_leave(host: Host) -> None:
    """List the tools, search, and close standard input right behind that, as a pipe does: it is
    answered, and no process stays.
    """
    host.send("tools/list", 2)
    assert "search_fomc" in {tool["name"] for tool in host.answer(2)["tools"]}
    host.send("tools/call", 3, name="search_fomc", arguments={"query": "rates"})
    host.process.stdin.close()
    assert host.answer(3)["content"][0]["text"].startswith("empty_corpus: ")
    assert host.process.wait(300) == 0
    eventually(lambda: host.left() == [], timeout_s=300)


def test_handshake_is_answered_before_there_is_a_stack(tmp_path):
    """On an empty home folder, with what the stack will have; requests are answered once it is up."""
    data = tmp_path / "data"
    with starts_are_held(data):
        host = Host(
            tmp_path / "home", SEARCHBUS, "stdio", "--data", data, SEARCHBUS_EMBEDDER="hash"
        )
        capabilities = host.initialize()["capabilities"]
        assert capabilities["tools"] == {"listChanged": True, "search": True}
        host.send("ping", 9)
        assert host.answer(9) == {}
        assert processes(data) == {}
    ask_and_leave(host)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["closes", "is killed"])
def test_client_that_leaves_while_its_stack_starts_leaves_nothing_behind(tmp_path, how):
    """Standard input is read from the first moment; the kernel closes the pipe of a killed one."""
    data = tmp_path / "data"
    host = Host(tmp_path / "home", SEARCHBUS, "stdio", "--data", data, SEARCHBUS_EMBEDDER="hash")
    host.initialize()
    eventually(lambda: len(host.left()) > 1, timeout_s=300)  # it starts
    if how == "closes":
        host.process.stdin.close()
    else:
        host.process.kill()
    host.process.wait(300)
    eventually(lambda: host.left() == [], timeout_s=300)


@pytest.mark.slow
def test_client_that_leaves_while_it_waits_for_a_stack_ends(tmp_path):
    """It starts none after that, since nobody reads the answer; a call is not waited for."""
    data = tmp_path / "data"
    with starts_are_held(data):
        host = Host(
            tmp_path / "home", SEARCHBUS, "stdio", "--data", data,
            SEARCHBUS_CALL_TIMEOUT_CAP_S="600",
        )  # fmt: skip
        host.initialize()
        host.send("tools/call", 2, name="search_fomc", arguments={"query": "rates"})
        host.process.stdin.close()
        host.process.stdout.close()
        assert host.process.wait(300) == 0
        assert host.left() == []


@pytest.mark.slow
def test_first_command_for_clients_in_the_readme_works_as_it_stands(tmp_path):
    """On a machine where nothing runs and no file of searchbus is in the home folder."""
    readme = (ROOT / "README.md").read_text()
    shown = json.loads(
        next(line for line in readme.splitlines() if line.startswith('{"mcpServers"'))
    )
    server = shown["mcpServers"]["searchbus"]
    command = server["command"].replace("/path/to/searchbus/.venv/bin", str(SEARCHBUS.parent))
    host = Host(tmp_path / "home", command, *server["args"])
    host.initialize()
    ask_and_leave(host)


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


@pytest.mark.slow
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

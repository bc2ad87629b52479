"""MCP servers attached to a whole secured stack: by file, by command, while it runs."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from mcp import Client, MCPError

from searchbus_testing import Stack, eventually, until
from searchbus_testing.processes import free_port

PROGRAM = Path(__file__).with_name("attached_server.py")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def attached(start_stack, tmp_path_factory) -> Iterator[Stack]:
    """A stack that had nothing attached when it started, and then a command and a URL."""
    stack = start_stack(tmp_path_factory.mktemp("attached"), "--secure")
    assert "attach" not in stack.state["processes"]
    port = free_port()
    remote = subprocess.Popen([sys.executable, PROGRAM, str(port)])
    hosts = {
        "mcpServers": {
            "weather": {"command": sys.executable, "args": [str(PROGRAM)]},
            "far": {"url": f"http://127.0.0.1:{port}/mcp"},
        }
    }
    source = stack.data / "mcp.json"
    source.write_text(json.dumps(hosts))
    done = stack.command("attach", "import", source)
    assert done.returncode == 0, done.stderr
    dead = stack.command("attach", "add", "dead", "--", "/no/such/program")
    assert dead.returncode == 0, dead.stderr
    eventually(
        lambda: states(stack) == {"weather": "up", "far": "up", "dead": "down"},
        timeout_s=300, message=lambda: f"{states(stack)}\n{stack.log[-3000:]}",
    )  # fmt: skip
    yield stack
    remote.kill()  # it would wait for its open streams
    remote.wait()


def states(stack: Stack) -> dict[str, str]:
    done = stack.command("attach", "list", "--json")
    assert done.returncode == 0, done.stderr
    return {server["name"]: server["state"] for server in json.loads(done.stdout)}


async def listed(url: str) -> set[str]:
    async with Client(url) as client:
        found, cursor = set(), None
        while True:
            page = await client.list_tools(cursor=cursor)
            found |= {tool.name for tool in page.tools}
            cursor = page.next_cursor
            if cursor is None:
                return found


async def test_tools_have_their_names_beside_others_and_alone(attached):
    """On /mcp with the server's name, on its own endpoint without."""
    names = {"weather__forecast", "weather__process_id", "far__forecast"}

    async def there() -> bool:
        return names <= await listed(attached.url + "/mcp")

    await until(there)
    assert await listed(attached.url + "/mcp/weather") == {"forecast", "process_id"}
    assert "dead__" not in "".join(await listed(attached.url + "/mcp"))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("name", ["weather", "far"])
async def test_calls_pass_through_with_progress(attached, name, mode):
    """In each revision, for a command and for a URL."""
    steps: list[tuple] = []

    async def on_progress(*step) -> None:
        steps.append(step)

    async with Client(f"{attached.url}/mcp/{name}", mode=mode) as client:
        found = await client.call_tool("forecast", {"city": "Oslo"}, progress_callback=on_progress)
    assert found.structured_content == {"city": "Oslo", "sky": "blue"}
    assert found.meta["dev.searchbus/untrusted"] is True
    assert steps == [(1.0, 2.0, "looking out of the window")]


@pytest.mark.parametrize("name", ["weather", "far"])
async def test_resources_and_prompts_pass_through(attached, name):
    """On a secured bus the service may serve those of its servers, and the edge ask for them."""
    async with Client(f"{attached.url}/mcp") as client:

        async def there() -> bool:
            names = {prompt.name for prompt in (await client.list_prompts()).prompts}
            return f"{name}__pack" in names

        await until(there)
        filled = await client.get_prompt(f"{name}__pack", {"city": "Oslo"})
        assert filled.messages[0].content.text == "What do I pack for Oslo?"
        prefix = f"searchbus://attach/{name}/"
        listed_uris = {r.uri for r in (await client.list_resources()).resources}
        assert f"{prefix}weather://about" in listed_uris
        read = await client.read_resource(f"{prefix}weather://map/Oslo")
        assert base64.b64decode(read.contents[0].blob) == b"map of Oslo"


async def test_a_view_is_an_endpoint(attached):
    """Of the tools that it selects, while the stack runs."""
    path = attached.data / "attach.toml"
    changed = path.with_suffix(".new")  # half a file would detach servers
    changed.write_text(f"{path.read_text()}\n[views.sky]\nallow = ['*__forecast']\n")
    changed.replace(path)

    async def there() -> bool:
        try:
            return await listed(attached.url + "/mcp/sky") == {
                "weather__forecast", "far__forecast"
            }  # fmt: skip
        except ExceptionGroup as error:
            assert error.subgroup(MCPError), error  # there is no such endpoint yet
            return False

    await until(there)
    async with Client(attached.url + "/mcp/sky") as client:
        found = await client.call_tool("far__forecast", {"city": "Rome"})
    assert found.structured_content["city"] == "Rome"


async def test_a_sentence_finds_an_attached_tool(attached):
    """By the index of all tools; /mcp/lazy calls what it finds."""

    async def found() -> bool:
        done = await asyncio.to_thread(
            attached.command, "tools", "search", "will it rain in a city tomorrow", "--json"
        )
        return "forecast" in done.stdout

    await until(found)
    async with Client(attached.url + "/mcp/lazy") as client:
        arguments = {"name": "weather__forecast", "arguments": {"city": "Bergen"}}
        called = await client.call_tool("call_tool", arguments)
    assert called.structured_content["city"] == "Bergen"


async def test_wrong_arguments_are_refused_before_the_server(attached):
    """By the server's own schema."""
    async with Client(attached.url + "/mcp/weather") as client:
        found = await client.call_tool("forecast", {"city": 3})
    assert found.is_error
    assert "invalid_argument" in found.content[0].text


async def test_the_call_at_the_server_is_a_span_of_the_trace(attached):
    """From the client's call to the attached server's."""
    async with Client(attached.url + "/mcp/weather") as client:
        await client.call_tool("forecast", {"city": "Paris"})

    async def seen() -> bool:
        done = await asyncio.to_thread(attached.command, "trace", "--last", "--json")
        return done.returncode == 0 and done.stdout.count("tools/call") >= 2

    await until(seen)


async def test_a_removed_server_goes_with_its_process(attached):
    """While the others stay."""
    async with Client(attached.url + "/mcp/weather") as client:
        pid = int((await client.call_tool("process_id", {})).content[0].text)
    assert psutil.pid_exists(pid)
    done = await asyncio.to_thread(attached.command, "attach", "remove", "weather")
    assert done.returncode == 0, done.stderr

    async def gone() -> bool:
        names = await listed(attached.url + "/mcp")
        return not psutil.pid_exists(pid) and "weather__forecast" not in names

    await until(gone)
    assert "far__forecast" in await listed(attached.url + "/mcp")

"""A large installation in the browser: lists are read by pages, and the page stays small."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from searchbus_bus import Call, Worker, endpoint
from searchbus_contracts import ToolAnnotations, ToolCall, ToolDescriptor, ToolReply
from searchbus_contracts.attach import AttachedServer, StatusReply, StatusRequest

pytestmark = pytest.mark.slow
TOOLS, SERVERS, TRACES = 10_000, 100, 5_000
MOST_NODES = 8_000
"""Elements on a page: a hundred rows of a table with all that is in them, twice over."""
MOST_BYTES = 300_000
"""What one page reads of the edge, without the live stream."""
SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}


def tools() -> Iterator[ToolDescriptor]:
    """The tools of as many servers as an installation has."""
    for number in range(TOOLS):
        server = f"server{number % SERVERS:03}"
        yield ToolDescriptor(
            name=f"{server}__tool_{number:05}", toolset="many", title=f"Tool {number}",
            description=f"Does what tool {number} of {server} does, with a text of some length. " * 3,
            input_schema=SCHEMA, annotations=ToolAnnotations(read_only_hint=True),
        )  # fmt: skip


class Attached:
    """A hundred servers."""

    @endpoint
    async def status(self, call: Call, request: StatusRequest) -> StatusReply:
        """Each in some state."""
        states = ("up", "idle", "down", "starting")
        return StatusReply(
            servers=tuple(
                AttachedServer(
                    name=f"server{n:03}", state=states[n % 4], target=f"https://s{n}.example/mcp",
                    tools=TOOLS // SERVERS, held=int(n % 7 == 0), problem="it is away" if n % 4 == 2 else "",
                )
                for n in range(SERVERS)
            )
        )  # fmt: skip


def write_traces(file: Path) -> None:
    """Four spans each, as the services write them."""
    with file.open("w") as out:
        for number in range(TRACES):
            for depth, (name, service) in enumerate(
                (
                    (f"tools/call tool_{number % 50}", "edge"),
                    ("request web", "edge"),
                    ("process tool.web", "web"),
                    ("GET", "web"),
                )
            ):
                span = {
                    "trace_id": f"{number + 1:032x}", "span_id": f"{number * 4 + depth + 1:016x}",
                    "parent_id": f"{number * 4 + depth:016x}" if depth else None, "name": name,
                    "kind": "server", "service": service,
                    "start_ns": (number * 100 + depth) * 10**6,
                    "end_ns": (number * 100 + 50 - depth) * 10**6, "error": None,
                    "attributes": {"mcp.method.name": "tools/call", "number": number},
                }  # fmt: skip
                out.write(json.dumps(span) + "\n")


def large_workers() -> list[Worker]:
    """What offers the tools, and what has the servers."""

    async def nothing(call: Call, request: ToolCall) -> ToolReply:
        return ToolReply()

    many = Worker("many")
    for descriptor in tools():
        many.add_tool(descriptor, nothing)
    attach = Worker("attach")
    attach.add(Attached())
    return [many, attach]


async def test_pages_of_a_large_installation_stay_small(serve_console, visit, tmp_path):
    """Elements and bytes of each page are bounded; the time is printed and asserts nothing."""
    write_traces(tmp_path / "traces.jsonl")
    console = await serve_console(large_workers())
    tab = await visit(console.url, console.token)
    page = tab.page
    session = await page.context.new_cdp_session(page)
    await session.send("Performance.enable", {"timeDomain": "threadTicks"})

    async def cpu_s() -> float:
        found = (await session.send("Performance.getMetrics"))["metrics"]
        return next(one["value"] for one in found if one["name"] == "TaskDuration")

    ready = {
        "overview": "section >> text=server099", "attached": "text=server099",
        "catalogue": "tbody tr >> nth=99", "traces": "tbody tr >> nth=99",
    }  # fmt: skip
    await page.wait_for_selector(ready["overview"])
    print(f"first view: {await cpu_s():.2f} s of CPU in the page")
    for path, selector in ready.items():
        await page.evaluate("performance.clearResourceTimings()")
        before_s = await cpu_s()
        await tab.go("connect")
        await tab.go(path)
        await page.wait_for_selector(selector)
        nodes = await page.evaluate("document.getElementsByTagName('*').length")
        read = await page.evaluate(
            "performance.getEntriesByType('resource').filter(e => e.name.includes('/console/api/'))"
            ".reduce((sum, e) => sum + e.encodedBodySize, 0)"
        )
        print(f"{path}: {nodes} elements, {read} bytes, {await cpu_s() - before_s:.2f} s of CPU")
        assert nodes < MOST_NODES, path
        assert read < MOST_BYTES, path
    assert "The newest 100 of 5,000." in await page.inner_text("main")
    await tab.go("catalogue")
    await page.fill("[data-search]", "tool_09999")
    await page.get_by_role("link", name="server099__tool_09999").wait_for()
    assert await page.locator("tbody tr").count() == 1
    async with (
        httpx.AsyncClient(timeout=60) as http,
        http.stream("GET", f"{console.url}/console/api/events") as events,
    ):
        first = await anext(line async for line in events.aiter_lines() if line.startswith("data:"))
    assert len(first) < MOST_BYTES
    await tab.check()

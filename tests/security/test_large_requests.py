"""No request holds the edge's event loop for long, whatever it contains."""

from __future__ import annotations

import asyncio
import gc
import http.client
import json
from contextlib import AsyncExitStack

import psutil
import pytest

from searchbus_bus import MemoryBroker, Worker
from searchbus_contracts import TextContent, ToolDescriptor, ToolReply
from searchbus_edge.bootstrap import open_edge
from searchbus_edge.http.app import build_app
from searchbus_edge.settings import EdgeSettings
from searchbus_runtime import Health
from searchbus_runtime.server import HttpServer

from .loop_watch import UNITS, unit_s, watching

ATTEMPTS = 5

HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
LIMIT_BYTES = 256 * 1024
SCHEMAS = {
    "closed": {"properties": {"a": {"type": "string"}}, "additionalProperties": False},
    "texts": {"additionalProperties": {"type": "string"}},
    "names": {"propertyNames": {"maxLength": 2}},
    "lists": {"properties": {"a": {"anyOf": [{"type": "array", "items": {"type": "string"}}]}}},
}


@pytest.fixture
async def port():
    """The port of an edge whose tools have one schema each of those that make many errors."""
    broker = MemoryBroker()
    worker = Worker("office")

    async def reply(call, request):
        return ToolReply(content=(TextContent(text="done"),))

    for name, schema in SCHEMAS.items():
        schema = {"type": "object", **schema}
        worker.add_tool(
            ToolDescriptor(name=name, toolset="office", description=".", input_schema=schema), reply
        )
    async with AsyncExitStack() as exit_:
        await broker.connect(name="office").serve(worker)
        edge = await exit_.enter_async_context(
            open_edge(broker.connect(name="edge"), EdgeSettings())
        )
        server = await HttpServer.start(build_app(edge, Health()))
        yield server.port
        await edge.end_streams()
        await server.stop()


def post(port: int, *bodies: bytes) -> list[tuple[int, bytes]]:
    """Send requests from another thread, whose CPU time does not count."""
    answers = []
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    for body in bodies:
        connection.request("POST", "/mcp", body, HEADERS)
        response = connection.getresponse()
        answers.append((response.status, response.read()))
    connection.close()
    return answers


def message(method: str, params: object, **more: object) -> bytes:
    found = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params, **more}
    return json.dumps(found, separators=(",", ":")).encode()


def keys(count: int) -> dict[str, int]:
    return {f"k{number:06d}": 1 for number in range(count)}


def nested(depth: int) -> object:
    return json.loads("[" * depth + "]" * depth)


COUNT = 20_000
"""Keys of a body just under the limit."""
WORST = {
    **{f"arguments of {name}": message("tools/call", {"name": name, "arguments": keys(COUNT)})
       for name in SCHEMAS},
    "array": message("tools/call", {"name": "lists", "arguments": {"a": [1] * 120_000}}),
    "lists": message("tools/call", {"name": "lists", "arguments": {"a": [[]] * 80_000}}),
    "params": message("tools/call", {"name": "closed", "arguments": {}, **keys(COUNT)}),
    "meta": message("tools/call", {"name": "closed", "arguments": {}, "_meta": keys(COUNT)}),
    "envelope": message("ping", {}, **keys(COUNT)),
    "list": message("tools/list", keys(COUNT)),
    "initialize": message("initialize", {
        "protocolVersion": "2025-06-18", "capabilities": {"experimental": keys(COUNT)},
        "clientInfo": {"name": "x", "version": "1"},
    }),
    "prompt": message("prompts/get", {"name": "x", "arguments": keys(COUNT)}),
    "batch": b"[" + b",".join([b"{}"] * 80_000) + b"]",
    "no JSON": b"[" * (LIMIT_BYTES - 1),
}  # fmt: skip


async def test_request_with_a_third_of_a_million_unknown_keys_is_not_read(port):
    """It held the loop for seconds: the validator made an error, with a copy, of each key."""
    for name in SCHEMAS:
        body = message("tools/call", {"name": name, "arguments": keys(300_000)})
        ((status, answer),) = await asyncio.to_thread(post, port, body)
        assert (status, b"over 262144 bytes" in answer) == (413, True)


@pytest.mark.parametrize("name", WORST)
async def test_worst_requests_hold_the_loop_for_a_tenth_of_a_second_at_most(
    port, name, monkeypatch
):
    """In CPU time, relative to this machine's speed; other processes only add to it."""
    body = WORST[name]
    assert len(body) <= LIMIT_BYTES
    await asyncio.to_thread(post, port, message("tools/call", {"name": "closed"}))
    worst_s = []
    for _ in range(ATTEMPTS):
        with watching(monkeypatch) as watch:
            ((status, answer),) = await asyncio.to_thread(post, port, body)
        assert status != 500
        assert b"internal error" not in answer
        worst_s.append(watch.worst_s)
    assert min(worst_s) < UNITS * unit_s()


@pytest.mark.parametrize("depth", [64, 300, 900, 5000])
async def test_nesting_is_an_error_of_the_arguments(port, depth):
    """Not an internal error with a traceback in the log, from 255 levels on."""
    inner = b"[" * depth + b"]" * depth
    body = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"closed","arguments":'
        b'{"a":%b}}}' % inner
    )
    ((status, answer),) = await asyncio.to_thread(post, port, body)
    assert status in (200, 400)
    assert b"internal error" not in answer


@pytest.mark.slow
async def test_bad_requests_leave_no_memory_behind(port):
    """Ten thousand of them: 5 MiB more at most."""
    bad = [body for body in WORST.values() if len(body) < 200_000] + [
        b"", b"{", message("no/such", {}), message("tools/call", {"name": "no"}), b"[1]",
        message("tools/call", {"name": "closed", "arguments": {"b": nested(100)}}),
    ]  # fmt: skip

    def used_bytes() -> int:
        gc.collect()
        return psutil.Process().memory_info().rss

    for _ in range(300):
        await asyncio.to_thread(post, port, *bad)
    before = used_bytes()
    for _ in range(10_000 // len(bad)):
        await asyncio.to_thread(post, port, *bad)
    assert used_bytes() - before < 5 * 2**20

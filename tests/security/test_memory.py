"""Thousands of bad requests of every kind leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import http.client
import json
import logging
import sys
from collections.abc import Iterator

import psutil
import pytest

from .test_large_requests import COUNT, HEADERS, REVISIONS, WHOLE, WORST, keys, message, worst
from .test_tokens import bad_tokens

WARM_ROUNDS = 120
"""Then what is kept for good is kept: caches are full."""
REQUESTS = 4_000
LEFT_BLOCKS = REQUESTS
"""Of Python's allocator, whose number is exact: what is kept of each request is found."""
LEFT_BYTES = 64 * 2**20
"""Of the process, which rise and fall by 15 MiB with the largest requests."""

Request = tuple[str, bytes, dict[str, str]]


def bad_requests(number: int, tokens: list[str]) -> list[Request]:
    """One of each kind; `number` makes texts and names that were not sent before."""
    named = f"{number:06d}"
    kinds = {
        "empty": b"", "cut": b'{"jsonrpc":"2.0"', "no UTF-8": b'{"a":"\xff\xfe"}', "a value": b"7",
        "wrong types": message(["ping"], "x", id={}), "no version": b'{"id":1,"method":"ping"}',
        "id": message("ping", {}, id=1.5), "unknown method": message(f"x/{named}", {}),
        "unknown tool": message("tools/call", {"name": f"t{named}", "arguments": {}}),
        "unknown resource": message("resources/read", {"uri": f"a://{named}"}),
        "unknown prompt": message("prompts/get", {"name": named, "arguments": {named: named}}),
        "arguments": message("tools/call", {"name": "closed", "arguments": {named: [named]}}),
        "cursor": message("tools/list", {"cursor": named * 50}),
        "search": message("tools/search", {"query": named, "cursor": named}),
        "batch": b"[%b]" % b",".join([message(named, {}), b"7", b"{}"]),
        "progress": message("tools/call", {"name": "no", "_meta": {"progressToken": named * 100}}),
        "trace": message("ping", {"_meta": {"traceparent": named * 100, "tracestate": named}}),
        "initialize": message("initialize", {
            "protocolVersion": named, "clientInfo": {"name": named * 100, "version": named},
            "capabilities": {"experimental": {named: {}}},
        }),
        "oversized": message("tools/call", {"name": "closed", "arguments": keys(COUNT * 2)}),
    }  # fmt: skip
    found: list[Request] = [("/mcp", body, HEADERS) for body in kinds.values()]
    for revision in (*REVISIONS, f"v{named}", "2026-01-01"):
        headers = HEADERS | ({"MCP-Protocol-Version": revision} if revision else {})
        client = {
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientInfo": {"name": named, "version": named * 100},
            "io.modelcontextprotocol/clientCapabilities": {"experimental": {named: {}}},
        }
        body = message("tools/call", {"name": "closed", "arguments": {"b": 1}, "_meta": client})
        found.append(("/mcp", body, headers | {"Mcp-Method": "tools/call", "Mcp-Name": "closed"}))
    for path in (f"/mcp/{named}", f"/{named}", "/.well-known/oauth-protected-resource/" + named):
        found.append((path, message("ping", {}), HEADERS))
    for field in ("Host", "Origin", "Content-Type", "Accept", "traceparent", f"X-{named}"):
        found.append(("/mcp", message("ping", {}), HEADERS | {field: named * 50}))
    found += [
        ("/mcp", message("ping", {}), HEADERS | {"Authorization": f"Bearer {token}"})
        for token in (*tokens, named * 30, f"a.{named}.c", f"sbk_{named}_x")
    ]
    name = [*WORST, *WHOLE][number % (len(WORST) + len(WHOLE))]
    found.append(("/mcp", *worst(name, REVISIONS[number % len(REVISIONS)])))
    return found


def send(port: int, requests: list[Request]) -> int:
    """Send them, each on the connection of the last where that is open; how many were sent."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    for path, body, headers in requests:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        answer = response.read()
        assert response.status < 500, answer
    connection.close()
    return len(requests)


def used() -> tuple[int, int]:
    """Blocks of objects of up to 512 bytes, and bytes of the process."""
    gc.collect()
    return sys.getallocatedblocks(), psutil.Process().memory_info().rss


@pytest.fixture
def without_logs() -> Iterator[None]:
    """pytest keeps every line of the log until the test ends."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.parametrize("secured", [{"abuse_rate_per_s": 0}], indirect=True)
@pytest.mark.parametrize("signed_in", [False, True])
async def test_bad_requests_leave_no_memory_behind(port, secured, signed_in, without_logs):
    """Malformed, of wrong types, unknown, too large, with bad tokens."""
    tokens = [t for t in bad_tokens(secured.provider).values() if json.dumps(t).isascii()]
    if signed_in:
        port = int(secured.url.rpartition(":")[2])
    for number in range(WARM_ROUNDS):
        await asyncio.to_thread(send, port, bad_requests(number, tokens[:3]))
    before, sent, number = used(), 0, WARM_ROUNDS
    while sent < REQUESTS:
        sent += await asyncio.to_thread(send, port, bad_requests(number, tokens))
        number += 1
    blocks, size = (now - earlier for now, earlier in zip(used(), before, strict=True))
    assert blocks < LEFT_BLOCKS
    assert size < LEFT_BYTES

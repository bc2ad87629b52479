"""The walk of a tools/call: which files it enters, in which order."""

from __future__ import annotations

import httpx
from tests.walk import Walk, steps

import searchbus_edge

PIPELINE = {"mcp/endpoint.py", "tools/call.py"}
RESOLVER = {"tools/resolve.py"}
CLOSED = {"http/answer.py", "tools/telemetry.py"}
"""Entered at the end of a call, to close what they opened at its begin."""
TWO_LIMITS = {"tools/limits.py"}
"""Of requests, before anything is read; and of calls, once the tool is known."""
HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}


def call(name: str, **arguments: object) -> dict[str, object]:
    """A tools/call."""
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


async def test_a_call_enters_the_files_that_the_page_lists(running, monkeypatch):
    """In its order, after a first call has made what is kept."""
    # The watch for a client that leaves starts late, and would be one more step of a slow call.
    monkeypatch.setattr("searchbus_edge.http.answer.WATCH_AFTER_S", 60.0)
    async with httpx.AsyncClient(base_url=running.url, headers=HEADERS, timeout=60) as http:
        first = await http.post("/mcp", json=call("look_up", word="bus"))
        with Walk(searchbus_edge) as walk:
            second = await http.post("/mcp", json=call("look_up", word="bus"))
    assert first.json()["result"]["structuredContent"]["word"] == "bus"
    assert second.json() == first.json()
    assert walk.entered == steps("A tools/call")


def test_no_file_is_entered_twice_but_the_resolver_and_the_pipeline():
    """Besides what a call opens and closes, and the two limits."""
    listed = steps("A tools/call")
    twice = {file for file in listed if listed.count(file) > 1}
    assert twice == PIPELINE | RESOLVER | CLOSED | TWO_LIMITS
    assert max(listed.count(file) for file in twice) == 2


def test_a_file_that_is_left_and_entered_anew_is_seen():
    """The check can fail; returns and the next call into the same file are not counted."""
    with Walk(searchbus_edge) as walk:
        from searchbus_edge.auth import signing
        from searchbus_edge.http import head

        signing.to_base64url(b"a")
        head.parse_head([])
        head.is_modern(None)
        signing.from_base64url("YQ")
    assert walk.entered == ["auth/signing.py", "http/head.py", "auth/signing.py"]

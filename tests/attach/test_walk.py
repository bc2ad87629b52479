"""The walk of a tools/call to an attached server."""

from __future__ import annotations

import httpx

import searchbus_edge
from tests.walk import Walk, steps

from .test_broad import DECLARED

HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
CALL = {"name": "broad__sum", "arguments": {"a": 2, "b": 3}}
MESSAGE = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL}


async def test_an_attached_call_takes_the_same_way(serve_attached, monkeypatch):
    """For the edge an attached server is a toolset like any other."""
    # The watch for a client that leaves starts late, and would be one more step of a slow call.
    monkeypatch.setattr("searchbus_edge.http.answer.WATCH_AFTER_S", 60.0)
    url = await serve_attached(DECLARED, "broad")
    async with httpx.AsyncClient(base_url=url, headers=HEADERS, timeout=60) as http:
        first = await http.post("/mcp", json=MESSAGE)
        with Walk(searchbus_edge) as walk:
            second = await http.post("/mcp", json=MESSAGE)
    assert "error" not in first.json()
    assert second.json() == first.json()
    assert walk.entered == steps("A tools/call")

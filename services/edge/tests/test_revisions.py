"""Fields that a later revision added stay out of the answers of earlier ones."""

from __future__ import annotations

import json

import httpx
import pytest

OLDER = ("2025-03-26", "2025-06-18", "2025-11-25")
LATER_FIELDS = {"ttlMs", "cacheScope", "resultType"}
REQUESTS = [
    ("tools/list", {}),
    ("prompts/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "dict://all"}),
    ("prompts/get", {"name": "define", "arguments": {"word": "bus"}}),
    ("tools/call", {"name": "say", "arguments": {}}),
    ("tools/call", {"name": "fail", "arguments": {}}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "define"},
                             "argument": {"name": "word", "value": "b"}}),
]  # fmt: skip


async def _result(url: str, method: str, params: dict, revision: str) -> dict:
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": revision}
    if revision >= "2026":
        headers["Mcp-Method"] = method
        if name := params.get("name") or params.get("uri"):
            headers["Mcp-Name"] = name
        meta = {
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {**params, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with httpx.AsyncClient() as client:
        response = await client.post(f"{url}/mcp", json=body, headers=headers)
    text = response.text
    if response.headers["content-type"].startswith("text/event-stream"):
        text = next(line[6:] for line in text.splitlines() if line.startswith("data: {"))
    answer = json.loads(text)
    assert "result" in answer, answer
    return answer["result"]


@pytest.mark.parametrize(("method", "params"), REQUESTS)
@pytest.mark.parametrize("revision", OLDER)
async def test_older_revisions_get_no_later_fields(running, method, params, revision):
    """Strict clients of these revisions refuse what they do not know."""
    result = await _result(running.url, method, params, revision)
    assert not LATER_FIELDS & result.keys()


@pytest.mark.parametrize(("method", "params"), REQUESTS)
async def test_the_latest_revision_gets_them(running, method, params):
    """Every result has its type; lists say how long they may be kept."""
    result = await _result(running.url, method, params, "2026-07-28")
    assert result["resultType"] == "complete"
    if method.endswith("/list"):
        assert result["cacheScope"] == "private"
        assert result["ttlMs"] > 0

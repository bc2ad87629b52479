"""The attach service of this bus is refused, that of another one is not."""

from __future__ import annotations

import httpx
import pytest

from searchbus_bus import Worker
from searchbus_contracts.attach import ATTACHED_BY


async def asked(url: str, method: str, revision: str, worker: object) -> dict:
    """What an edge answers to the question of an attach service."""
    meta = {ATTACHED_BY: worker}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": revision}
    if revision >= "2026":
        headers["Mcp-Method"] = method
        meta |= {
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientInfo": {"name": "searchbus", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}}
    async with httpx.AsyncClient() as client:
        return (await client.post(f"{url}/mcp", json=body, headers=headers)).json()


QUESTIONS = [("ping", "2025-11-25"), ("server/discover", "2026-07-28")]


@pytest.mark.parametrize(("method", "revision"), QUESTIONS)
async def test_a_worker_of_this_bus_is_refused(running, method, revision):
    """The error says so with the worker's id, so that no other error is taken for it."""
    serving = await running.broker.connect(name="attach").serve(Worker("attach"))
    answer = await asked(running.url, method, revision, serving.instance)
    assert answer["error"]["data"] == {ATTACHED_BY: serving.instance}
    assert "Remove it" in answer["error"]["message"]


@pytest.mark.parametrize(("method", "revision"), QUESTIONS)
@pytest.mark.parametrize("worker", ["of-another-bus", "no token", "*", 7, None])
async def test_others_are_answered(running, method, revision, worker):
    """As if they had not said which worker they are; also what no worker can be."""
    await running.broker.connect(name="attach").serve(Worker("attach"))
    assert "result" in await asked(running.url, method, revision, worker)

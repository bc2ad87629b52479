"""The methods of extensions to strangers, and to other callers."""

from __future__ import annotations

from typing import Any

import pytest

TASKS = "io.modelcontextprotocol/tasks"
UNKNOWN = "Unknown task: it has expired, or was never created. Use the taskId of a call."
METHODS: list[tuple[str, str, dict[str, Any]]] = [
    ("tasks/get", "taskId", {}),
    ("tasks/cancel", "taskId", {}),
    ("tasks/update", "taskId", {"inputResponses": {}}),
    ("skills/list", "", {}),
    ("skills/get", "uri", {}),
    ("skills/search", "query", {}),
]
"""Each method, the parameter that names something, and the others."""


async def ask(secured, method: str, token: str | None, *, path: str = "/mcp", **params: Any) -> Any:
    """The response to a message of revision 2026-07-28 from a client that takes tasks."""
    names = [params[key] for key in ("taskId", "name") if key in params]
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
        **({"Mcp-Name": names[0]} if names else {}),
        **({"Authorization": f"Bearer {token}"} if token else {}),
    }
    prefix = "io.modelcontextprotocol"
    meta = {
        f"{prefix}/protocolVersion": "2026-07-28",
        f"{prefix}/clientInfo": {"name": "t", "version": "1"},
        f"{prefix}/clientCapabilities": {"extensions": {TASKS: {}}},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return await secured.http.post(path, json=body, headers=headers)


@pytest.mark.parametrize(("method", "key", "params"), METHODS)
async def test_strangers_learn_nothing(secured, method, key, params):
    """401 for each method, whatever it names."""
    response = await ask(secured, method, None, **params, **({key: "x"} if key else {}))
    assert response.status_code == 401
    assert "office" not in response.text


async def test_the_task_of_another_caller_is_like_one_that_nobody_has(secured):
    """Its id gives neither its state nor the right to end it; the tool's role does not help."""
    owner = secured.provider.token("PATIENT")
    others = [secured.provider.token("PATIENT", "*", sub="bob"), secured.provider.token(sub="eve")]
    created = (await ask(secured, "tools/call", owner, name="long_tool", arguments={})).json()
    task_id = created["result"]["taskId"]
    assert created["result"]["resultType"] == "task" and len(task_id) >= 32
    answers = set()
    for token in others:
        for asked in (task_id, "A" * len(task_id), "x"):
            for method, key, params in METHODS[:3]:
                error = (await ask(secured, method, token, **{key: asked}, **params)).json()
                answers.add((error["error"]["code"], error["error"]["message"]))
    assert answers == {(-32602, UNKNOWN)}
    # The owner's token for another endpoint does not lead there, either.
    elsewhere = await ask(secured, "tasks/get", owner, path="/mcp/office", taskId=task_id)
    assert elsewhere.status_code in (401, 403) or elsewhere.json()["error"]["message"] == UNKNOWN
    found = (await ask(secured, "tasks/get", owner, taskId=task_id)).json()["result"]
    assert found["status"] == "working"
    await ask(secured, "tasks/cancel", owner, taskId=task_id)
    found = (await ask(secured, "tasks/get", owner, taskId=task_id)).json()["result"]
    assert found["status"] == "cancelled"


async def test_a_hidden_tool_makes_no_task(secured):
    """The answer is that of a tool which does not exist."""
    token = secured.provider.token()
    found = []
    for name in ("long_tool", "absent_tool"):
        answer = await ask(secured, "tools/call", token, name=name, arguments={})
        found.append((answer.status_code, "taskId" in answer.text))
    assert not any(has_task for _, has_task in found)
    assert found[0][0] in (403, found[1][0])


@pytest.mark.parametrize("secured", [{"abuse_rate_per_s": 1.0, "abuse_burst": 3}], indirect=True)
async def test_polling_counts_as_every_request(secured):
    """A caller that guesses ids is refused as one that sends too much."""
    token = secured.provider.token()
    statuses = [(await ask(secured, "tasks/get", token, taskId="x")).status_code for _ in range(8)]
    assert 429 in statuses

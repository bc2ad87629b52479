"""Real clients read the tools of a server whose schemas are of every age and generator."""

from __future__ import annotations

import json
import sys

import httpx
import pytest

from searchbus_testing import Stack, eventually

from .test_clients import CLIENTS, FOLDER, run, run_typescript

pytestmark = pytest.mark.slow
READERS = (*CLIENTS, "mcp2", "autogen", "openai_agents", "pydantic_ai")
NAMES = {f"odd__{name}" for name in ("union", "draft4", "draft7", "openapi", "tree")}
GOOD, BAD = {"value": True}, {"value": 3}


@pytest.fixture(scope="module")
def odd(start_stack, tmp_path_factory) -> Stack:
    """A stack with such a server attached; `/mcp` has its tools beside all of ours."""
    folder = tmp_path_factory.mktemp("schemas")
    program = FOLDER / "programs" / "schemas_server.py"
    command = f"command = {json.dumps(sys.executable)}\nargs = [{json.dumps(str(program))}]\n"
    (folder / "attach.toml").write_text(f"[servers.odd]\n{command}")
    stack = start_stack(folder)

    def listed() -> bool:
        return all(name in stack.command("tools", "list").stdout for name in NAMES)

    eventually(listed, timeout_s=600, message=lambda: stack.log[-3000:])
    return stack


def check(found: dict) -> None:
    """All tools, ours as well; two calls, and one whose argument is wrong."""
    assert {*NAMES, "web_search_advanced", "search_fomc"} <= set(found["tools"])
    first, bad, after = found["calls"]
    assert not first["error"], first
    assert "true" in first["text"].lower()
    assert bad["error"]
    assert after == first


@pytest.mark.parametrize("client", READERS)
def test_client_lists_every_tool_and_calls_one(odd, client):
    """Frameworks make classes or functions of all schemas first."""
    check(run(client, {"url": f"{odd.url}/mcp"}, "odd__union", BAD, GOOD))


def test_typescript_sdk_lists_every_tool_and_calls_one(node, odd):
    """Its validator compiles every schema."""
    calls = [{"name": "odd__union", "arguments": given} for given in (GOOD, BAD, GOOD)]
    check(run_typescript(node, f"{odd.url}/mcp", calls))


def test_null_that_openapi_allows_reaches_the_server(odd):
    """The edge checks arguments as it lists them."""
    answer = httpx.post(
        f"{odd.url}/mcp/odd",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call",
              "params": {"name": "openapi", "arguments": {"value": None, "place": None}}},
        headers={"Accept": "application/json", "MCP-Protocol-Version": "2025-11-25"}, timeout=300,
    )  # fmt: skip
    result = answer.json()["result"]
    assert json.loads(result["content"][0]["text"]) == {"value": None, "place": None}

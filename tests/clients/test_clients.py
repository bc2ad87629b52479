"""Real clients: each lists the tools, calls one, makes a bad call, and goes on.

Each runs in an environment of its own with pinned packages (NAME.txt), made at the first run.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from searchbus_testing import SEARCHBUS, Stack, alive, eventually

from ..bench.peers.environments import NotInstalledError, environment
from ..conformance.npm import NODE_MODULES, inspector

pytestmark = pytest.mark.slow
FOLDER = Path(__file__).parent
CLIENTS = ("fastmcp", "mcp1", "langchain")
GOOD = {"query": "rates"}
TIMEOUT_S = 900


def python_of(client: str) -> Path:
    """Its environment's Python; fastmcp is also a peer of the benchmarks, mcp2 the project's own."""
    if client == "mcp2":
        return Path(sys.executable)
    pins = FOLDER / f"{client}.txt"
    try:
        return environment(client, pins if pins.exists() else None)
    except NotInstalledError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))


def run(
    client: str,
    server: dict[str, Any],
    tool: str,
    bad: dict[str, Any],
    good: dict[str, Any] = GOOD,
) -> dict[str, Any]:
    """What a client's program printed: the tools, and three calls, the second with `bad`."""
    done = subprocess.run(
        [python_of(client), FOLDER / "programs" / f"{client}_client.py",
         json.dumps([server, tool, good, bad])],
        capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run_typescript(node: Path, url: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    """What the program of the TypeScript SDK printed: the tools, and the result of each call.

    The SDK lists the tools first, and refuses a result that its tool's output schema does not have.
    """
    program = FOLDER / "programs" / "typescript_client.cjs"
    done = subprocess.run(
        [node, program, json.dumps([str(NODE_MODULES), {"url": url}, calls])],
        capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def search_stack(start_stack, tmp_path_factory) -> Stack:
    """A stack with an internet on loopback."""
    return start_stack(tmp_path_factory.mktemp("clients"), "--fake-upstreams")


@pytest.mark.parametrize("client", CLIENTS)
def test_client_goes_on_after_a_bad_argument(search_stack, client):
    """The failure is a result that a model reads, not an exception that ends its loop."""
    server = {"url": f"{search_stack.url}/mcp/ddg"}
    found = run(client, server, "web_search", {})
    assert set(found["tools"]) == {"web_search", "instant_answer"}
    first, bad, after = found["calls"]
    assert not first["error"]
    assert "Web Search Results" in first["text"]
    assert bad["error"]
    assert bad["text"].endswith("invalid_argument: query: is required.")
    assert after == first


REFERENCES = "dev.searchbus/tool_references"


def test_typescript_sdk_takes_what_the_newer_tools_return(node, search_stack):
    """Several searches, pages, plans, notes, and references to tools in `_meta`."""
    plan = {
        "steps": [
            {"id": "found", "tool": "web_find", "arguments": {"query": "okapi"}},
            {"id": "bare", "rows": "$.found.results[*]", "fields": {"url": "@.url"}, "limit": 1},
        ],
        "output": {"urls": "$.bare"},
    }
    page = {"urls": ["http://a.example.org/article"], "section": "Sizes"}
    calls = [
        ("search_many", {"queries": ["okapi", "giraffe"]}),
        ("web_find", {"query": "okapi"}),
        ("read_page", page),
        ("run_plan", plan),
        ("remember", {"text": "The okapi prefers leaves."}),
        ("recall", {"query": "okapi"}),
    ]
    given = [{"name": name, "arguments": arguments} for name, arguments in calls]
    asked = {
        "name": "find_tools",
        "arguments": {"query": "read a page"},
        "_meta": {REFERENCES: True},
    }
    *results, found = run_typescript(node, f"{search_stack.url}/mcp", [*given, asked])["calls"]
    assert [
        (name, r["text"]) for (name, _), r in zip(calls, results, strict=True) if r["error"]
    ] == []
    many, web, read, planned, kept, recalled = (result["structured"] for result in results)
    assert [query["query"] for query in many["queries"]] == ["okapi", "giraffe"]
    assert web["results"][0]["url"]
    assert "first item" in read["items"][0]["content"]
    assert planned["output"]["urls"] == [{"url": web["results"][0]["url"]}]
    assert kept["id"] in [note["id"] for note in recalled["notes"]]
    names = [tool["name"] for tool in found["structured"]["results"]]
    assert [block["tool_name"] for block in found["meta"][REFERENCES]] == names != []


def test_inspector_goes_on_after_a_bad_argument(node, search_stack):
    """Its exit code tells a tool's failure from one of the connection."""

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return inspector(node, f"{search_stack.url}/mcp/ddg", *arguments)

    listed = call("--method", "tools/list")
    assert {tool["name"] for tool in json.loads(listed.stdout)["tools"]} == {
        "web_search",
        "instant_answer",
    }
    web_search = ("--method", "tools/call", "--tool-name", "web_search")
    bad = call(*web_search)
    assert bad.returncode == 5, bad.stderr
    assert "invalid_argument: query: is required." in bad.stdout + bad.stderr
    assert call(*web_search, "--tool-arg", "query=rates").returncode == 0


@pytest.mark.parametrize("clients", [("mcp1", "fastmcp"), ("langchain", "mcp1")])
async def test_two_clients_start_over_stdio_at_once(tmp_path, clients):
    """On an empty folder; nothing is left when both have ended."""
    for client in clients:
        await asyncio.to_thread(python_of, client)
    server = {
        "command": str(SEARCHBUS),
        "args": ["stdio", "--toolset", "fomc", "--data", str(tmp_path)],
        # Some clients pass on a few variables only.
        "env": {**os.environ, "SEARCHBUS_EMBEDDER": "hash"},
    }
    results = await asyncio.gather(*(
        asyncio.to_thread(run, client, server, "search_fomc", {**GOOD, "top_k": 99})
        for client in clients
    ))  # fmt: skip
    for found in results:
        assert set(found["tools"]) == {"search_fomc", "get_document"}
        first, bad, after = (call["text"] for call in found["calls"])
        assert "empty_corpus: " in first
        assert "invalid_argument: top_k: 99 is greater than the maximum of 50" in bad
        assert after.partition("empty_corpus")[2] == first.partition("empty_corpus")[2]

    def left() -> set[int]:
        pids = {p.pid for p in psutil.process_iter() if str(tmp_path) in " ".join(_line(p))}
        return alive(pids - {os.getpid()})

    await asyncio.to_thread(lambda: eventually(lambda: not left(), timeout_s=300))


def _line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []

"""Clients of other search APIs that use the edge instead, with another address only.

Two providers answer, so that results have scores and engines of both.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from searchbus_testing import Stack

from ..conformance.npm import NODE_MODULES
from .test_clients import FOLDER, TIMEOUT_S, python_of

pytestmark = pytest.mark.slow
QUERY = "whales"
PAGE = "http://a.example.org/article"
MISSING = "http://a.example.org/missing?nowhere"


@pytest.fixture(scope="module")
def web_stack(start_stack, tmp_path_factory) -> Stack:
    """A stack with an internet on loopback and keys of two providers."""
    return start_stack(
        tmp_path_factory.mktemp("search_apis"), "--fake-upstreams",
        SEARCHBUS_TAVILY_API_KEYS='["a"]', SEARCHBUS_BRAVE_API_KEYS='["b"]',
    )  # fmt: skip


def output(command: list[Path | str]) -> dict[str, Any]:
    """What a client's program printed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def found(web_stack) -> dict[str, Any]:
    """What the Python clients found."""
    program = FOLDER / "programs" / "search_apis_client.py"
    return output(
        [python_of("langchain"), program, json.dumps([web_stack.url, QUERY, PAGE, MISSING])]
    )


@pytest.fixture(scope="module")
def tool_urls(web_stack) -> list[str]:
    """What the tool finds for the same question."""
    answer = httpx.post(
        f"{web_stack.url}/mcp/web",
        json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "web_search_advanced", "arguments": {"query": QUERY, "maxResults": 3}}},
        headers={"Accept": "application/json", "MCP-Protocol-Version": "2025-11-25"},
        timeout=60,
    )  # fmt: skip
    return [row["url"] for row in answer.json()["result"]["structuredContent"]["results"]]


def urls(answer: dict[str, Any]) -> list[str]:
    return [result["url"] for result in answer["results"]]


def test_tavily_python_finds_what_the_tool_finds(found, tool_urls):
    """With scores in order of the fusion, and the text of each page."""
    answer = found["tavily"]
    assert urls(answer) == tool_urls
    assert len(tool_urls) == 3
    scores = [result["score"] for result in answer["results"]]
    assert all(0 < score <= 1 for score in scores)
    assert all("<untrusted_text_" in result["raw_content"] for result in answer["results"])
    assert len(found["news"]["results"]) == 3
    assert all("<untrusted_text_" in result["content"] for result in found["advanced"]["results"])


def test_tavily_python_reads_pages(found):
    """Pages that cannot be read are named."""
    (page,) = found["extract"]["results"]
    assert page["url"] == PAGE
    assert "Songs of whales" in page["raw_content"]
    assert [failed["url"] for failed in found["extract"]["failed_results"]] == [MISSING]


def test_tavily_python_knows_the_errors(found):
    """By its own exceptions, with our words."""
    kind, message = found["refused"]
    assert kind == "BadRequestError"
    assert "exact_match is not supported" in message


def test_langchain_tavily(found, tool_urls):
    """Its tools for search and extraction."""
    assert urls(found["langchain"]) == tool_urls
    assert urls(found["langchain_extract"]) == [PAGE]


def test_langchain_searx(found, tool_urls):
    """Its wrapper, which reads engines and categories of each result."""
    assert [row["link"] for row in found["searx"]] == tool_urls
    assert {name for row in found["searx"] for name in row["engines"]} == {"tavily", "brave"}
    assert {row["category"] for row in found["searx_news"]} == {"news"}
    assert found["searx"][0]["snippet"] in found["searx_text"]


def test_tavily_typescript(node, web_stack, tool_urls):
    """Search, extraction and an error."""
    arguments = json.dumps([str(NODE_MODULES), web_stack.url, QUERY, PAGE, MISSING])
    found = output([node, FOLDER / "programs" / "tavily_client.cjs", arguments])
    assert urls(found["search"]) == tool_urls
    assert all("<untrusted_text_" in result["rawContent"] for result in found["search"]["results"])
    assert [page["url"] for page in found["extract"]["results"]] == [PAGE]
    assert [page["url"] for page in found["extract"]["failedResults"]] == [MISSING]
    assert found["refused"].startswith("Invalid topic: topic 'finance' is not supported.")

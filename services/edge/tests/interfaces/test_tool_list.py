"""The list of tools over HTTP, and the search in it."""

from __future__ import annotations

import json

import httpx
import pytest
from mcp.shared.exceptions import MCPError

from searchbus_contracts import ErrorCode, Fault
from searchbus_edge.auth.signing import Cursors
from searchbus_edge.catalog.render import Pages
from searchbus_edge.http.faults import SHOWN
from searchbus_edge.http.head import Head, Received
from searchbus_edge.interfaces.api import ToolList


class Search:
    """Finds one tool after the other."""

    def __init__(self, available=True):
        self.available = available
        self.error = None

    async def find_tools(self, actor, view, query, cursor):
        if self.error is not None:
            raise self.error
        return [view.tools[query]], None if cursor else "next"


@pytest.fixture
def received(reader):
    return Received(Head([]), reader)


@pytest.fixture
def search():
    return Search()


@pytest.fixture
def tools(running, search):
    pages = Pages(Cursors(b"k" * 32), page_size=3)
    return ToolList(running.edge.http_calls, pages, search)


def decoded(page):
    return json.loads(page)


async def test_list_has_what_mcp_lists(running):
    """Each entry as tools/list has it, and a path; hidden tools are missing."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"Accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient(base_url=running.url, timeout=60) as http:
        listed = (await http.get("/api/v1/tools")).json()["tools"]
        over_mcp = (await http.post("/mcp", json=body, headers=headers)).json()["result"]["tools"]
    paths = {tool["name"]: tool.pop("path") for tool in listed}
    assert listed == over_mcp
    assert paths["look_up"] == "/api/v1/tools/look_up"
    assert paths["atlas_look_up"] == "/api/v1/atlas/look_up"
    assert "secret" not in paths


async def test_pages_follow_each_other(tools, received):
    """Until there is no cursor."""
    names, cursor = [], None
    while True:
        page = decoded(await tools.page(received, None, cursor))
        names += [tool["name"] for tool in page["tools"]]
        assert len(page["tools"]) <= 3
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    assert len(names) == len(set(names)) > 6


async def test_query_finds_the_best(tools, received):
    """By tools/search."""
    page = decoded(await tools.page(received, "say", None))
    assert [tool["path"] for tool in page["tools"]] == ["/api/v1/tools/say"]
    assert page["nextCursor"] == "next"
    assert "nextCursor" not in decoded(await tools.page(received, "say", "next"))


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Fault(ErrorCode.INVALID_QUERY, "Empty."), 400, "invalid_query"),
        (Fault(ErrorCode.RATE_LIMITED, "Wait.", retry_after_ms=5), 429, "rate_limited"),
        (MCPError(-32602, "Unknown cursor."), 400, "invalid_argument"),
        (RuntimeError("canary"), 500, "internal"),
    ],
)
async def test_failed_search_is_a_problem(tools, search, received, error, status, code):
    """With the code of MCP."""
    search.error = error
    with pytest.raises(Fault) as raised:
        await tools.page(received, "say", None)
    assert (SHOWN[raised.value.code].problem, raised.value.code) == (status, code)
    assert "canary" not in raised.value.failure.message


async def test_search_without_an_index_is_unavailable(tools, search, received):
    """A list is not."""
    search.available = False
    with pytest.raises(Fault, match="unavailable"):
        await tools.page(received, "say", None)
    assert decoded(await tools.page(received, None, None))["tools"]

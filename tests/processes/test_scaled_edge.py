"""Several edges of one machine behave like one."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from searchbus_testing import Stack, eventually

pytestmark = pytest.mark.slow
CONNECTIONS = 40
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-11-25",
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = Stack(
        tmp_path_factory.mktemp("scaled") / "data",
        ("--workers", "2", "--fake-upstreams"),
        {
            "SEARCHBUS_EMBEDDER": "hash",
            "SEARCHBUS_PAGE_SIZE": "2",
            "SEARCHBUS_CALL_RATE_PER_S": "0.001",
            "SEARCHBUS_CALL_BURST": "8",
        },
        folder=Path(__file__).parents[2],
    )
    stack.start()
    yield stack
    stack.stop()


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    """A client that opens a connection for every request, so that any edge may get it."""
    with httpx.Client(timeout=120, limits=httpx.Limits(max_keepalive_connections=0)) as client:
        yield client


def edge_processes(stack: Stack) -> list[psutil.Process]:
    return [psutil.Process(pid) for name, pid in stack.state["processes"].items() if "edge" in name]


def request(client: httpx.Client, stack: Stack, method: str, params: dict) -> dict:
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    reply = client.post(f"{stack.url}/mcp", json=message, headers=HEADERS)
    text = reply.text
    if reply.headers["content-type"].startswith("text/event-stream"):
        text = next(line[5:] for line in text.splitlines() if line.startswith("data:"))
    return httpx.Response(200, text=text).json()


def test_the_kernel_spreads_connections_over_the_edges(stack: Stack) -> None:
    """Both have some of forty connections that stay open."""
    host, _, port = stack.url.removeprefix("http://").partition(":")
    connections = [http.client.HTTPConnection(host, int(port), 120) for _ in range(CONNECTIONS)]
    try:
        for connection in connections:
            connection.request("GET", "/healthz")
            response = connection.getresponse()
            assert response.status == 200
            response.read()

        def connected() -> list[int]:
            return [
                sum(
                    c.laddr.port == int(port) and c.status == psutil.CONN_ESTABLISHED
                    for c in process.net_connections("tcp")
                )
                for process in edge_processes(stack)
            ]

        assert sum(connected()) == CONNECTIONS
        assert min(connected()) > 0
    finally:
        for connection in connections:
            connection.close()


def test_a_cursor_of_one_edge_is_valid_at_the_others(stack: Stack, client: httpx.Client) -> None:
    """Every page of twenty walks is requested over a new connection."""
    for _ in range(20):
        names, cursor = [], None
        while True:
            params = {"cursor": cursor} if cursor else {}
            page = request(client, stack, "tools/list", params)["result"]
            names += [tool["name"] for tool in page["tools"]]
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        assert len(names) == len(set(names)) > 4


def test_a_callers_limit_counts_at_all_edges_together(stack: Stack, client: httpx.Client) -> None:
    """Of many calls the burst is admitted once, not once at each edge."""
    admitted = 0
    for _ in range(40):
        params = {"name": "instant_answer", "arguments": {"query": "whale"}}
        result = request(client, stack, "tools/call", params)["result"]
        error = (result.get("structuredContent") or {}).get("error") or {}
        admitted += error.get("code") != "rate_limited"
    assert 8 <= admitted <= 10


def test_a_killed_edge_comes_back_on_the_port(stack: Stack) -> None:
    """Meanwhile the other one serves."""
    killed = edge_processes(stack)[1]
    killed.kill()

    def started_again() -> bool:
        return stack.state["processes"].get("edge-2") not in (None, killed.pid)

    eventually(started_again, timeout_s=300)
    port = int(stack.url.rpartition(":")[2])

    def listens(process: psutil.Process) -> bool:
        return any(
            c.laddr.port == port and c.status == psutil.CONN_LISTEN
            for c in process.net_connections("tcp")
        )

    eventually(lambda: all(map(listens, edge_processes(stack))), timeout_s=300)

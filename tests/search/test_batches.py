"""JSON-RPC batches, as revision 2025-03-26 has them."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from searchbus_testing import HEADERS, messages


def message(number: int | str | None, method: str, **params):
    found = {"jsonrpc": "2.0", "method": method, "params": params}
    return found if number is None else {**found, "id": number}


@pytest.fixture
async def http(stack):
    async with httpx.AsyncClient(base_url=stack.url, headers=HEADERS, timeout=60) as http:
        yield http


@pytest.mark.parametrize("accept", [HEADERS["Accept"], "application/json"])
@pytest.mark.parametrize("version", [{}, {"MCP-Protocol-Version": "2025-03-26"}])
async def test_each_request_of_a_batch_is_answered(http, accept, version):
    """The three searches in one round trip; notifications get no answer, errors stay their own."""
    batch = [
        message(1, "tools/search", query="weather"),
        message("two", "prompts/search", query="fact check a claim"),
        message(None, "notifications/cancelled", requestId=99),
        message(3, "resources/search", query="weather"),
        message(4, "tools/search"),
        message(5, "no/such"),
        message(6, "tools/call", name="get_forecast", arguments={}),
    ]
    response = await http.post("/mcp", json=batch, headers={"Accept": accept, **version})
    assert response.status_code == 200
    answers = {m["id"]: m for m in messages(response)}
    assert answers.keys() == {1, "two", 3, 4, 5, 6}
    assert answers[1]["result"]["tools"][0]["name"] == "get_forecast"
    assert answers["two"]["result"]["prompts"][0]["name"] == "verify_claim"
    assert "resources" in answers[3]["result"]
    assert answers[4]["error"]["code"] == -32602
    assert answers[5]["error"]["code"] == -32601
    assert answers[6]["result"]["content"][0]["text"] == "get_forecast was called"


async def test_batch_of_notifications_is_accepted(http):
    """202 and no body."""
    batch = [message(None, "notifications/initialized"), message(None, "notifications/initialized")]
    response = await http.post("/mcp", json=batch)
    assert (response.status_code, response.content) == (202, b"")


@pytest.mark.parametrize(
    ("batch", "headers"),
    [
        ([], {}),
        ([message(i, "ping") for i in range(51)], {}),
        ([message(1, "ping")], {"MCP-Protocol-Version": "2025-06-18"}),
        ([message(1, "ping")], {"MCP-Protocol-Version": "2026-07-28"}),
        ([1, "x", None], {}),
    ],
)
async def test_refused_batches(http, batch, headers):
    """Empty, too long, or of a revision without batches: one error for all."""
    response = await http.post("/mcp", json=batch, headers=headers)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == -32600


async def test_initialize_is_no_part_of_a_batch(http):
    """Its message alone is refused."""
    response = await http.post("/mcp", json=[message(1, "initialize"), message(2, "ping")])
    answers = {m["id"]: m for m in messages(response)}
    assert answers[1]["error"]["code"] == -32600
    assert answers[2]["result"] == {}


async def test_foreign_host_is_refused_as_a_whole(http):
    """What guards a single message guards a batch."""
    response = await http.post(
        "/mcp", json=[message(1, "ping"), message(2, "ping")], headers={"Host": "evil.example"}
    )
    assert response.status_code == 421


async def test_large_batch_body_in_many_pieces(http):
    """Read whole, up to the limit."""
    text = "x" * 1500

    async def pieces():
        yield b"["
        for number in range(49):
            yield b'{"jsonrpc":"2.0","id":%d,"method":"tools/search","params":{"query":"%s"}},' % (
                number, text.encode()
            )  # fmt: skip
        yield b'{"jsonrpc":"2.0","id":49,"method":"ping"}]'

    response = await http.post("/mcp", content=pieces())
    assert len(messages(response)) == 50
    too_much = b"[" + b" " * (5 * 1024 * 1024) + b"]"
    assert (await http.post("/mcp", content=too_much)).status_code in (400, 413)


async def test_client_that_leaves_ends_its_batch(stack, http):
    """Nothing of it goes on."""
    with pytest.raises(httpx.TimeoutException):
        await http.post("/mcp", json=[message(1, "slow/none"), message(2, "ping")], timeout=1e-4)
    await asyncio.sleep(0.1)
    response = await http.post("/mcp", json=[message(1, "ping")])
    assert messages(response)[0]["result"] == {}

"""A URL whose server is away: what its callers get, and how it is found again. Nothing is timed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from searchbus_attach.declare.servers import parse_server
from searchbus_attach.upstream import following
from searchbus_attach.upstream import upstream as module
from searchbus_attach.upstream.connection import ConnectionContext
from searchbus_attach.upstream.upstream import Upstream
from searchbus_contracts import ErrorCode, Fault
from searchbus_testing import free_port, serve, until

from ..conftest import call_tool
from .test_upstream import Caller, text

CALLS = 16
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo", "wait")]


class Coming:
    """A server that comes and goes at one address; counts what it was asked.

    Attributes:
        opened: handshakes.
        waiting: calls that it keeps.
        status: answered to everything where it is set.
    """

    def __init__(self) -> None:
        self.url = ""
        self.opened = self.waiting = self.status = 0
        self._port = free_port()  # one that no connection takes while nothing listens
        self._killed = asyncio.Event()
        self._up = AsyncExitStack()

    async def come(self) -> None:
        """Listen, at the address of before; what was known of sessions is gone."""
        self._killed.clear()
        base = await self._up.enter_async_context(serve(self, port=self._port))
        self.url, self._port = f"{base}/mcp", int(base.rpartition(":")[2])

    async def go(self) -> None:
        """End at once: connections are closed under their requests."""
        self._killed.set()
        await self._up.aclose()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        body, more = b"", True
        while more:
            event = await receive()
            body, more = body + event.get("body", b""), event.get("more_body", False)
        message = json.loads(body) if scope["method"] == "POST" else {}
        status, result = self.status or (200 if "id" in message else 202), {}
        if scope["method"] != "POST":
            status = 405
        match message.get("method"):
            case "server/discover":
                status = self.status or 400
            case "initialize":
                self.opened += 1
                result = {
                    "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "coming", "version": "1"},
                }  # fmt: skip
            case "tools/list":
                result = {"tools": TOOLS}
            case "tools/call":
                if message["params"]["name"] == "wait":
                    self.waiting += 1
                    head = [(b"content-type", b"application/json"), (b"content-length", b"9")]
                    await send({"type": "http.response.start", "status": 200, "headers": head})
                    await self._killed.wait()
                    raise ConnectionError  # which closes the connection
                result = {"content": [{"type": "text", "text": "here"}]}
        answer = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), "result": result}).encode()
        head = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": answer if status == 200 else b""})


@pytest.fixture
async def coming() -> AsyncIterator[Coming]:
    found = Coming()
    await found.come()
    yield found
    await found.go()


@pytest.fixture
async def upstream(coming, monkeypatch) -> AsyncIterator[Upstream]:
    """Up; its own pauses are so long that only calls can find the server again."""
    monkeypatch.setattr(following, "PAUSE_S", (600.0, 600.0))
    monkeypatch.setattr(module, "_QUICK_S", 600.0)  # a slow machine
    server = parse_server("far", {"url": coming.url})
    found = Upstream(server, ConnectionContext(), on_list=lambda _: None)
    found.start()
    await until(lambda: found.state == "up")
    yield found
    await found.stop()


async def asked(upstream: Upstream, tool: str = "echo", calls: int = CALLS) -> list[Any]:
    """The results and failures of calls that come together."""
    return await asyncio.gather(
        *(call_tool(upstream, Caller(), tool, {}) for _ in range(calls)), return_exceptions=True
    )


async def leave(upstream: Upstream, coming: Coming) -> None:
    """The server goes, and that was seen."""
    await coming.go()
    await asked(upstream)
    await until(lambda: upstream.state == "down")


async def test_the_first_calls_after_its_return_go_through(upstream, coming):
    """All of them, by one handshake; also after many that failed."""
    for _ in range(3):
        await leave(upstream, coming)
        for _ in range(5):
            assert all(isinstance(found, Fault) for found in await asked(upstream))
        before = coming.opened
        await coming.come()
        assert [text(found) for found in await asked(upstream)] == ["here"] * CALLS
        assert coming.opened == before + 1


async def test_calls_that_run_when_it_is_killed_are_not_repeated(upstream, coming):
    """They may have been done; the next ones go through, although it is back at once."""
    running = asyncio.create_task(asked(upstream, "wait"))
    await until(lambda: coming.waiting == CALLS)
    await coming.go()
    await coming.come()
    failures = await running
    assert {fault.failure.retryable for fault in failures} == {False}
    assert coming.waiting == CALLS
    assert [text(found) for found in await asked(upstream)] == ["here"] * CALLS


async def test_a_call_while_it_is_away_fails_by_one_try(upstream, coming):
    """With a failure that says what to do, and may be repeated soon."""
    await leave(upstream, coming)
    tries = upstream._tries
    (fault,) = await asked(upstream, calls=1)
    assert upstream._tries == tries + 1
    assert (fault.code, fault.failure.retryable) == (ErrorCode.UNAVAILABLE, True)
    assert str(fault) == (
        "unavailable: far cannot be used now: it cannot be reached. Try again later."
    )
    assert 0 <= fault.failure.retry_after_ms <= 1000 * module._LEAST_PAUSE_S


async def test_tries_that_calls_ask_for_do_not_make_the_pause_longer(upstream, coming, monkeypatch):
    """Nobody may call when it is back: its list is then read as soon as without these calls."""
    asked_for = []
    after = following.Pauses.after

    def noted(self: following.Pauses, **how: Any) -> float:
        asked_for.append(how)
        return after(self, **how)

    monkeypatch.setattr(following.Pauses, "after", noted)
    await leave(upstream, coming)
    for _ in range(5):
        await asked(upstream)
    assert [how["was_up"] for how in asked_for] == [True, False]


@pytest.mark.parametrize("how", ["has just gone", "refuses", "is slow to fail"])
async def test_calls_ask_for_no_more_tries_of_a_server_that(upstream, coming, monkeypatch, how):
    """Tries need a pause; a server that refuses may want fewer requests; an address that swallows
    connections costs each caller the time of a try."""
    if how == "has just gone":
        monkeypatch.setattr(module, "_LEAST_PAUSE_S", 300.0)
    elif how == "is slow to fail":
        monkeypatch.setattr(module, "_QUICK_S", 0.0)
    await leave(upstream, coming)
    if how == "refuses":
        coming.status = 429
        await coming.come()
        await asked(upstream)
    tries = upstream._tries
    for _ in range(20):
        assert all(isinstance(found, Fault) for found in await asked(upstream))
    assert upstream._tries == tries


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_proxy_that_says_that_it_is_away(upstream, coming, status):
    """Is asked again as the server itself would be."""
    await leave(upstream, coming)
    coming.status = status
    await coming.come()
    await asked(upstream)
    coming.status = 0
    assert [text(found) for found in await asked(upstream)] == ["here"] * CALLS

"""A remote MCP server on loopback, by the SDK, whose sessions and answers a test can spoil."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations

from searchbus_testing import serve


@dataclass
class Remote:
    """A server and what it saw.

    Attributes:
        url: of streamable HTTP.
        sse_url: of the older transport.
        headers: of the requests so far.
        forget: `True` once: the next request with a session is answered 404.
        disowns: whether each call is answered 404 once it was done.
        legacy: whether it knows no server/discover, as before revision 2026-07-28.
        spoil: (status, content type, body) of all answers.
    """

    url: str = ""
    sse_url: str = ""
    headers: list[dict[str, str]] = field(default_factory=list)
    forget: bool = False
    disowns: bool = False
    legacy: bool = False
    spoil: tuple[int, str, bytes] | None = None
    called: int = 0


@asynccontextmanager
async def remote_server() -> AsyncIterator[Remote]:
    """Serve it on a free port."""
    remote = Remote()
    server = MCPServer("far", version="2.0")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def echo(text: str) -> str:
        """Say a text again."""
        remote.called += 1
        return text

    @server.tool()
    def book() -> str:
        """Book a table: each call books another one."""
        remote.called += 1
        return "booked"

    @server.tool()
    async def slow(ctx: Context) -> str:
        """Wait, with progress."""
        for step in range(600):
            await ctx.report_progress(step + 1, 600, "waiting")
            await asyncio.sleep(0.05)
        return "done"

    streamable, sse = server.streamable_http_app(), server.sse_app()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = {k.decode(): v.decode() for k, v in scope["headers"]}
        remote.headers.append(headers)
        spoil = remote.spoil
        if remote.legacy and headers.get("mcp-method") == "server/discover":
            spoil = (400, "text/plain", b"")
        if remote.forget and "mcp-session-id" in headers and scope["method"] == "POST":
            remote.forget = False
            spoil = (404, "text/plain", b"no such session")
        serve_it = sse if scope["path"].startswith(("/sse", "/messages")) else streamable
        if remote.disowns and "mcp-session-id" in headers:
            before = remote.called
            answer: list[Any] = []

            async def keep(event: Any) -> None:
                answer.append(event)

            await serve_it(scope, receive, keep)
            if remote.called == before:
                for event in answer:
                    await send(event)
                return
            spoil = (404, "text/plain", b"no such session")
        if spoil is not None:
            status, kind, body = spoil
            head = [(b"content-type", kind.encode())]
            await send({"type": "http.response.start", "status": status, "headers": head})
            await send({"type": "http.response.body", "body": body})
            return
        await serve_it(scope, receive, send)

    started, over = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        # In one task: a fixture ends in another one than it begins in.
        async with server.session_manager.run(), serve(app) as base:
            remote.url, remote.sse_url = f"{base}/mcp", f"{base}/sse"
            started.set()
            await over.wait()

    running = asyncio.create_task(run())
    await started.wait()
    try:
        yield remote
    finally:
        over.set()
        await running


@asynccontextmanager
async def passage(url: str) -> AsyncIterator[tuple[str, Callable[[], None]]]:
    """An address that leads to a server, and how to accept nothing more there.

    What is connected stays.
    """
    target = httpx2.URL(url)
    tasks: set[asyncio.Task[None]] = set()

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(target.host, target.port)
        for one in (pipe(reader, far_writer), pipe(far_reader, writer)):
            task = asyncio.get_running_loop().create_task(one)
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}{target.path}", server.close
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

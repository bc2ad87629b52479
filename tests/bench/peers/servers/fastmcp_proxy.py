"""fastmcp's proxy: `fastmcp_proxy.py PORT URL each|shared`.

each: a session with the server behind it for every request, the default. shared: one session for
all requests, which the documentation allows where callers need not be kept apart.
"""

import asyncio
import sys

import uvicorn
import uvloop
from fastmcp import Client, FastMCP
from fastmcp.server import create_proxy


async def serve(port: int, proxy: FastMCP) -> None:
    """Serve until the process is ended."""
    app = proxy.http_app(json_response=True, stateless_http=True)
    await uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning")).serve()


async def main(port: int, url: str, sessions: str) -> None:
    """Serve with the sessions that were asked for."""
    if sessions == "each":
        await serve(port, create_proxy(url))
    else:
        async with Client(url) as client:
            await serve(port, create_proxy(client))


with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3]))

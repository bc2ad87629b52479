"""The Python SDK's server, or fastmcp's: `python_sdk.py PORT sdk|fastmcp`. Stateless, JSON."""

import asyncio
import sys

import uvicorn

if sys.argv[2] == "sdk":
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("echo", log_level="WARNING")
    make_app = server.streamable_http_app
else:
    from fastmcp import FastMCP

    server = FastMCP("echo")
    make_app = server.http_app


@server.tool()
async def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool()
async def slow(text: str) -> str:
    """Return the text after a second."""
    await asyncio.sleep(1)
    return text


# Not server.run(), which takes asyncio's own loop: uvicorn takes uvloop.
uvicorn.run(
    make_app(json_response=True, stateless_http=True), port=int(sys.argv[1]), log_level="warning"
)

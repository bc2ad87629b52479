"""An MCP server by the SDK, to be attached: `python attached_server.py [PORT]`; stdio without one."""

from __future__ import annotations

import asyncio
import os
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("weather", version="1.2")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def forecast(city: str, ctx: Context) -> dict[str, str]:
    """Weather forecast: temperature and rain in a city for tomorrow."""
    await ctx.report_progress(1, 2, "looking out of the window")
    return {"city": city, "sky": "blue"}


@server.tool()
async def process_id() -> str:
    """The id of the server's process."""
    await asyncio.sleep(0)
    return str(os.getpid())


@server.resource("weather://map/{city}")
async def chart(city: str) -> bytes:
    """A map, as an image."""
    return f"map of {city}".encode()


@server.resource("weather://about")
async def about() -> str:
    """Where the forecasts come from."""
    return "the window"


@server.prompt()
async def pack(city: str) -> str:
    """What to pack for a city."""
    return f"What do I pack for {city}?"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")

"""A fastmcp server with one tool: `fastmcp_echo.py PORT`."""

import sys

import uvicorn
from fastmcp import FastMCP

server = FastMCP("echo")


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


# Not server.run(), which takes asyncio's own loop: uvicorn takes uvloop.
app = server.http_app(json_response=True, stateless_http=True)
uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")

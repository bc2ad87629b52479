"""The MCP SDK's server with one tool: `sdk.py PORT json|stream`.

Stateless, as the SDK recommends for servers that keep nothing between calls.
"""

import sys

import uvicorn
from mcp.server.mcpserver import MCPServer

server = MCPServer("echo", log_level="WARNING")


@server.tool()
async def echo(text: str) -> str:
    """Return the text."""
    return text


app = server.streamable_http_app(json_response=sys.argv[2] == "json", stateless_http=True)
uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")

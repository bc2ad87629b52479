"""A remote MCP server for a container: `python3 far_server.py PORT`, at /mcp."""

import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("far")


@server.tool()
def reverse(text: str) -> str:
    """Turn a text around."""
    return text[::-1]


server.run("streamable-http", host="0.0.0.0", port=int(sys.argv[1]))

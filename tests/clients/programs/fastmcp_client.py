"""fastmcp's client."""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError


async def main(server, name, good, bad):
    where = server["url"] if "url" in server else StdioTransport(**server)
    async with Client(where) as client:
        tools = await client.list_tools()

        async def call(arguments):
            try:
                result = await client.call_tool(name, arguments)
            except ToolError as error:
                # What a tool's own failure is to an agent; any other exception ends its loop.
                return {"error": True, "text": str(error)}
            return {"error": False, "text": result.content[0].text}

        calls = [await call(arguments) for arguments in (good, bad, good)]
    print(json.dumps({"tools": [tool.name for tool in tools], "calls": calls}))


asyncio.run(main(*json.loads(sys.argv[1])))

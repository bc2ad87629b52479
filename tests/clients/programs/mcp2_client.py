"""The Python SDK 2.x, which is also the project's own."""

import asyncio
import json
import sys

from mcp import Client


async def main(server, name, good, bad):
    async with Client(server["url"]) as client:
        tools = (await client.list_tools()).tools

        async def call(arguments):
            result = await client.call_tool(name, arguments)
            return {"error": bool(result.is_error), "text": result.content[0].text}

        calls = [await call(arguments) for arguments in (good, bad, good)]
    print(json.dumps({"tools": [tool.name for tool in tools], "calls": calls}))


asyncio.run(main(*json.loads(sys.argv[1])))

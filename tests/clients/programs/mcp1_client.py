"""The Python SDK 1.x."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


async def main(server, name, good, bad):
    async with AsyncExitStack() as stack:
        if "url" in server:
            transport = streamablehttp_client(server["url"])
        else:
            transport = stdio_client(StdioServerParameters(**server))
        read, write, *_ = await stack.enter_async_context(transport)
        session = await stack.enter_async_context(ClientSession(read, write))
        await session.initialize()
        tools = (await session.list_tools()).tools

        async def call(arguments):
            result = await session.call_tool(name, arguments)
            return {"error": result.isError, "text": result.content[0].text}

        calls = [await call(arguments) for arguments in (good, bad, good)]
    print(json.dumps({"tools": [tool.name for tool in tools], "calls": calls}))


asyncio.run(main(*json.loads(sys.argv[1])))

"""autogen's adapter, which makes a pydantic class of each tool's schema."""

import asyncio
import json
import sys

from autogen_core import CancellationToken
from autogen_ext.tools.mcp import StreamableHttpServerParams, mcp_server_tools


async def main(server, name, good, bad):
    tools = await mcp_server_tools(StreamableHttpServerParams(**server, timeout=300))
    (tool,) = [tool for tool in tools if tool.name == name]

    async def call(arguments):
        try:
            found = await tool.run_json(arguments, CancellationToken())
        except Exception as error:
            return {"error": True, "text": str(error)}
        return {"error": False, "text": tool.return_value_as_string(found)}

    calls = [await call(arguments) for arguments in (good, bad, good)]
    print(json.dumps({"tools": [tool.name for tool in tools], "calls": calls}))


asyncio.run(main(*json.loads(sys.argv[1])))

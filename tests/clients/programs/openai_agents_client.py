"""OpenAI's Agents SDK: each tool as a function for a model, with the schema made strict."""

import asyncio
import json
import sys

from agents.mcp import MCPServerStreamableHttp, MCPUtil


async def main(server, name, good, bad):
    async with MCPServerStreamableHttp(
        params={**server, "timeout": 300}, client_session_timeout_seconds=300
    ) as connection:
        tools = await connection.list_tools()
        for tool in tools:
            MCPUtil.to_function_tool(tool, connection, convert_schemas_to_strict=True)

        async def call(arguments):
            result = await connection.call_tool(name, arguments)
            error = getattr(result, "is_error", None) or getattr(result, "isError", False)
            return {"error": bool(error), "text": result.content[0].text}

        calls = [await call(arguments) for arguments in (good, bad, good)]
    print(json.dumps({"tools": [tool.name for tool in tools], "calls": calls}))


asyncio.run(main(*json.loads(sys.argv[1])))

"""The Python SDK: pip install "mcp>=2"; python python_sdk.py"""

import asyncio
import os

from mcp import Client

URL = os.environ.get("SEARCHBUS_URL", "http://127.0.0.1:8080/mcp")


async def main() -> None:
    """List the tools, search, read the first result."""
    async with Client(URL) as client:
        tools = (await client.list_tools()).tools
        print("tools:", ", ".join(tool.name for tool in tools))
        found = await client.call_tool("search", {"query": "message bus"})
        # A failure is a result too: a model reads it and corrects its call.
        if found.is_error:
            print(found.content[0].text)
            return
        for result in found.structured_content["results"]:
            print(result["title"], result["url"])


asyncio.run(main())

"""LangChain: pip install langchain-mcp-adapters langgraph; python langchain_tools.py

`tools` is what an agent takes: create_agent("a model", tools) of langchain.
"""

import asyncio
import os

from langchain_mcp_adapters.client import MultiServerMCPClient

URL = os.environ.get("SEARCHBUS_URL", "http://127.0.0.1:8080/mcp")
SERVERS = {"searchbus": {"transport": "streamable_http", "url": URL}}


async def main() -> None:
    """Load the tools and search."""
    tools = {tool.name: tool for tool in await MultiServerMCPClient(SERVERS).get_tools()}
    print("tools:", ", ".join(tools))
    for block in await tools["search"].ainvoke({"query": "message bus"}):
        print(block["text"])


asyncio.run(main())

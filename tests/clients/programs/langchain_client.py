"""langchain-mcp-adapters, its tools in a LangGraph ToolNode as it is by default."""

import asyncio
import json
import sys

from langchain_core.messages import AIMessage
from langchain_mcp_adapters.client import MultiServerMCPClient
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode


async def main(server, name, good, bad):
    if "url" in server:
        connection = {"transport": "streamable_http", **server}
    else:
        connection = {"transport": "stdio", **server}
    tools = await MultiServerMCPClient({"searchbus": connection}).get_tools()
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "tools")
    agent = graph.compile()

    async def call(arguments):
        wanted = {"name": name, "args": arguments, "id": "1", "type": "tool_call"}
        state = await agent.ainvoke({"messages": [AIMessage("", tool_calls=[wanted])]})
        message = state["messages"][-1]
        return {"error": message.status == "error", "text": message.content[0]["text"]}

    calls = [await call(arguments) for arguments in (good, bad, good)]
    print(json.dumps({"tools": [tool.name for tool in tools], "calls": calls}))


asyncio.run(main(*json.loads(sys.argv[1])))

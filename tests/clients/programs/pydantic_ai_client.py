"""Pydantic AI: its toolset of an MCP server, with arguments checked as a model's would be."""

import asyncio
import json
import sys

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelResponse, RetryPromptPart, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel


async def main(server, name, good, bad):
    listed, calls = [], []
    wanted = [good, bad, good]

    def model(messages, info):
        """Calls the tool three times, as a model would, and reads what comes back."""
        listed[:] = [tool.name for tool in info.function_tools]
        for part in messages[-1].parts:
            if getattr(part, "tool_name", None) == name:
                retry = isinstance(part, RetryPromptPart)
                text = part.model_response() if retry else part.model_response_str()
                calls.append({"error": retry or "invalid_argument" in text, "text": text})
        if len(calls) == len(wanted):
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart(name, wanted[len(calls)])])

    agent = Agent(FunctionModel(model), toolsets=[MCPToolset(server["url"])], retries=3)
    async with agent:
        await agent.run("call")
    print(json.dumps({"tools": listed, "calls": calls}))


asyncio.run(main(*json.loads(sys.argv[1])))

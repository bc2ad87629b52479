"""A view's approval and budget by the SDK's client, through the edge."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import mcp_types as types
import pytest
from mcp import Client

PROGRAM = Path(__file__).parents[2] / "services/attach/tests/programs/plain_server.py"
SERVER = f"""
[servers.plain]
command = {json.dumps(sys.executable)}
args = ["-I", "-S", {json.dumps(str(PROGRAM))}, "{{}}"]
[servers.plain.view.tools.echo]
approve = true
[servers.plain.view.tools.echo.results]
max_tokens = 300
"""


async def test_user_is_asked_and_the_rest_is_read(serve_attached):
    """A client of the newest revision asks; the rest of the answer is one of its resources."""
    url = await serve_attached(SERVER, "plain")
    asked = []

    async def answer(context, params):
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"approve": True})

    async with Client(f"{url}/mcp/plain", elicitation_callback=answer) as client:
        reply = await client.call_tool("echo", {"text": "some words " * 400})
        assert not reply.is_error, reply.content
        assert len(asked) == 1
        assert asked[0].startswith('Approve the call of echo with {"text":"some words')
        link = reply.content[-1]
        assert link.type == "resource_link"
        rest = await client.read_resource(link.uri)
        assert "words" in rest.contents[0].text
        again = await client.call_tool("echo", {"text": "other words"})
        assert (again.content[0].text, len(asked)) == ("other words", 2)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_client_that_cannot_ask_waits_for_an_operator(serve_attached, mode):
    """The message says so; the tool was not called."""
    url = await serve_attached(SERVER, "plain")
    async with Client(f"{url}/mcp/plain", mode=mode) as client:
        reply = await client.call_tool("echo", {"text": "a"})
        assert reply.is_error
        assert "A person has to approve this call first" in reply.content[0].text

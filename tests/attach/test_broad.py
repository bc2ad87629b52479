"""A server that offers something of every kind answers through searchbus as it does directly."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from .asking import Script, as_direct, ask

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "services" / "attach" / "tests" / "programs" / "broad_server.py"
ARGUMENTS = ["-I", "-S", str(PROGRAM)]
PREFIX = "searchbus://attach/broad/"
DECLARED = f"""
[servers.broad]
command = {json.dumps(sys.executable)}
args = {json.dumps(ARGUMENTS)}
"""
SCRIPT = Script(
    calls=[
        ("echo", {"text": "é ✓"}),
        ("sum", {"a": 2, "b": 3}),
        ("steps", {"count": 4}),
        ("picture", {}),
        ("annotated", {}),
        ("linked", {}),
        ("embedded", {}),
        ("failing", {}),
    ],
    reads=["note:///text", "note:///picture", "note:///by-number/7", "note:///none"],
    prompts=[
        ("simple", {}),
        ("greet", {"name": "Ada"}),
        ("greet", {"name": "Ada", "tone": "loud"}),
    ],
    completions=[
        ("greet", "name", "a", {}),
        ("greet", "tone", "x", {"name": "Ada"}),
        ("note:///by-number/{number}", "number", "", {}),
    ],
)


async def test_every_field_is_the_servers(serve_attached):
    """Lists, results, progress, binary content, metadata, errors."""
    command = StdioServerParameters(command=sys.executable, args=ARGUMENTS)
    async with Client(stdio_client(command)) as client:
        direct = await ask(client, SCRIPT)
    # The newest revision does not have this code: a client of the same age is compared.
    assert direct["read note:///none"] == {"code": -32002, "message": "Resource not found"}
    assert len(direct['call steps {"count": 4}']["progress"]) == 4
    url = await serve_attached(DECLARED, "broad")
    async with Client(f"{url}/mcp/broad", mode="legacy") as client:
        through = as_direct(await ask(client, SCRIPT, PREFIX), PREFIX)
    odd = [name for name in through["prompts"] if name.startswith("with_picture")]
    # A name that is no token becomes one; a URI in a result is an address.
    through["prompts"]["with picture"] = {**through["prompts"].pop(*odd), "name": "with picture"}
    assert through == direct


async def test_the_newest_revision_has_the_same(serve_attached):
    """With qualified names, on the endpoint of all toolsets."""
    url = await serve_attached(DECLARED, "broad")
    async with Client(f"{url}/mcp") as client:
        assert "broad__greet" in {p.name for p in (await client.list_prompts()).prompts}
        filled = await client.get_prompt("broad__greet", {"name": "Ada"})
        assert filled.messages[0].content.text == "Greet Ada in a plain tone."
        assert filled.meta["dev.searchbus/untrusted"] is True
        read = await client.read_resource(f"{PREFIX}note:///picture")
        assert (read.contents[0].blob, read.contents[0].mime_type) == ("iVBORw0KGgo=", "image/png")
        linked = await client.call_tool("broad__linked", {})
        uri = linked.content[0].uri
        assert (await client.read_resource(uri)).contents[0].text == "hello\nworld"
        with pytest.raises(MCPError) as error:
            await client.read_resource(f"{PREFIX}note:///none")
        assert error.value.error.code == -32602
        refused = await client.call_tool("broad__refusing", {})
        assert refused.is_error
        assert refused.structured_content["error"]["code"] == "invalid_argument"
        assert "refusing: refused" in refused.content[0].text


async def test_a_selection_is_an_endpoint_of_its_own(serve_attached):
    """Its tools are there once on /mcp, and there under the same name."""
    text = DECLARED + '[views.sums]\nallow = ["broad__sum", "broad__e*"]\n'
    url = await serve_attached(text, "broad", "sums")
    async with Client(f"{url}/mcp/sums") as client:
        assert [t.name for t in (await client.list_tools()).tools] == [
            "broad__echo", "broad__embedded", "broad__sum"
        ]  # fmt: skip
        found = await client.call_tool("broad__sum", {"a": 1, "b": 2})
        assert found.structured_content == {"sum": 3}
    async with Client(f"{url}/mcp") as client:
        names = [t.name for t in (await client.list_tools()).tools]
        assert len([name for name in names if name.endswith("sum")]) == 1

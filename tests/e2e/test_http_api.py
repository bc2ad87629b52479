"""Plain HTTP in a whole stack: tools answer as over MCP, the document and the page's commands hold."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from urllib.parse import unquote

import httpx
import jsonschema
import pytest
from mcp import Client

from searchbus_testing import until

ROOT = Path(__file__).parents[2]
PAGE = "http://a.example.org/article"
"""On the internet of the tests."""


@pytest.fixture
async def http(stack):
    async with httpx.AsyncClient(base_url=stack.url, timeout=120, trust_env=False) as http:
        yield http


@pytest.mark.parametrize(
    ("path", "arguments"),
    [
        ("tools/web_search_advanced", {"query": "whales", "maxResults": 4}),
        ("web/web_search", {"query": "whales", "maxResults": "3"}),
        ("tools/find_tools", {"query": "search the web"}),
        ("tools/fetch", {"id": "absent"}),
        ("tools/call_tool", {"name": "find_tools", "arguments": {"query": "read a page"}}),
    ],
)
async def test_answers_agree_with_the_tools(stack, http, path, arguments):
    """Results and failures; arguments are repaired alike."""
    plain = await http.post(f"/api/v1/{path}", json=arguments)
    async with Client(f"{stack.url}/mcp") as client:
        found = await client.call_tool(path.rpartition("/")[2], arguments)
    if found.is_error:
        error = found.structured_content["error"]
        assert (plain.json()["code"], plain.json()["detail"]) == (error["code"], error["message"])
    else:
        assert (plain.status_code, plain.json()) == (200, found.structured_content)


async def test_search_finds_what_mcp_finds(stack, http):
    """In the same order, once the index has every tool: a new one changes what is found."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/search",
            "params": {"query": "search the web"}}  # fmt: skip
    headers = {"Accept": "application/json, text/event-stream"}

    async def agree() -> bool:
        plain = (await http.get("/api/v1/tools", params={"query": "search the web"})).json()
        over_mcp = (await http.post("/mcp", json=body, headers=headers)).json()["result"]
        names = [t["name"] for t in plain["tools"]]
        return names == [t["name"] for t in over_mcp["tools"]] and len(names) > 1

    await until(agree)


async def test_document_holds_together(http):
    """References lead somewhere, examples fit, and each operation is there."""
    document = (await http.get("/openapi.json")).json()

    def resolved(reference: str) -> object:
        found = document
        for part in reference.removeprefix("#/").split("/"):
            found = found[unquote(part).replace("~1", "/").replace("~0", "~")]
        return found

    def references(part: object) -> list[str]:
        if isinstance(part, list):
            return [r for item in part for r in references(item)]
        if not isinstance(part, dict):
            return []
        own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
        return own + [r for item in part.values() for r in references(item)]

    found = set(references(document))
    assert len(found) > 20
    for reference in found:
        assert isinstance(resolved(reference), dict), reference
    for path, operations in document["paths"].items():
        if "post" not in operations:
            continue
        body = operations["post"]["requestBody"]["content"]["application/json"]
        schema = {**body["schema"], "components": document["components"]}
        jsonschema.validate(body["example"], schema)
        assert (await http.get(path)).status_code == 405, path


def test_commands_of_the_page_work(stack):
    """Every curl of docs/http.md."""
    lines = (ROOT / "docs" / "http.md").read_text().replace("\\\n", " ").splitlines()
    commands = [line for line in lines if line.startswith("curl ")]
    assert commands
    for line in commands:
        line = line.replace("http://127.0.0.1:8080", stack.url)
        line = line.replace("https://example.org/", PAGE)
        done = subprocess.run(
            [*shlex.split(line), "--fail"], capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        assert done.stdout

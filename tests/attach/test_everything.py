"""The reference server `everything` answers through searchbus as it does directly."""

from __future__ import annotations

import json

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from .asking import Script, as_direct, ask, without_times
from .everything import install_everything

pytestmark = pytest.mark.slow
PREFIX = "searchbus://attach/everything/"
DATA = "data:text/plain;base64,aGVsbG8gd29ybGQ="
DYNAMIC = "demo://resource/dynamic"
SCRIPT = Script(
    calls=[
        ("echo", {"message": "é ✓"}),
        ("get-sum", {"a": 2, "b": 3.5}),
        ("get-annotated-message", {"messageType": "error", "includeImage": True}),
        ("get-annotated-message", {"messageType": "debug"}),
        ("get-resource-links", {"count": 4}),
        ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
        ("get-resource-reference", {"resourceType": "Blob", "resourceId": 2}),
        ("get-structured-content", {"location": "Chicago"}),
        ("get-tiny-image", {}),
        ("trigger-long-running-operation", {"duration": 1, "steps": 4}),
        ("gzip-file-as-resource", {"name": "a.gz", "data": DATA, "outputType": "resource"}),
        ("gzip-file-as-resource", {"name": "b.gz", "data": DATA, "outputType": "resourceLink"}),
        ("get-resource-reference", {"resourceType": "Text", "resourceId": -1}),
    ],
    reads=[
        "demo://resource/static/document/features.md",
        f"{DYNAMIC}/text/7",
        f"{DYNAMIC}/blob/8",
        "demo://resource/session/b.gz",  # made by a call above
    ],
    prompts=[
        ("simple-prompt", {}),
        ("args-prompt", {"city": "Paris"}),
        ("args-prompt", {"city": "Paris", "state": "Texas"}),
        ("completable-prompt", {"department": "Engineering", "name": "Alice"}),
        ("resource-prompt", {"resourceType": "Text", "resourceId": "3"}),
        ("resource-prompt", {"resourceType": "Blob", "resourceId": "4"}),
    ],
    completions=[
        ("completable-prompt", "department", "", {}),
        ("completable-prompt", "name", "", {"department": "Engineering"}),
        ("resource-prompt", "resourceType", "B", {}),
        (f"{DYNAMIC}/text/{{resourceId}}", "resourceId", "5", {}),
    ],
)
FAILING = Script(
    calls=[],
    reads=["demo://resource/none", f"{DYNAMIC}/text/x"],
    prompts=[("resource-prompt", {"resourceType": "Text", "resourceId": "x"})],
)


@pytest.fixture(scope="module")
def command() -> list[str]:
    """The command of the server."""
    return install_everything()


async def directly(command: list[str], script: Script) -> dict:
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    async with Client(stdio_client(parameters)) as client:
        found = await ask(client, script)
    # Tasks are not offered to clients of searchbus.
    for tool in found["tools"].values():
        tool.pop("execution", None)
        for schema in ("inputSchema", "outputSchema"):
            tool.get(schema, {}).pop("$schema", None)
    return without_times(found)


async def through(serve_attached, command: list[str], script: Script) -> dict:
    text = (
        f"[servers.everything]\ncommand = {json.dumps(command[0])}\n"
        f"args = {json.dumps(command[1:])}\nstart_timeout_s = 300\n"
    )
    url = await serve_attached(text, "everything")
    async with Client(f"{url}/mcp/everything", mode="legacy") as client:
        return without_times(as_direct(await ask(client, script, PREFIX), PREFIX))


async def test_every_field_is_the_servers(serve_attached, command):
    """Tools, resources, prompts, completion, progress, binary content."""
    direct = await directly(command, SCRIPT)
    found = await through(serve_attached, command, SCRIPT)
    assert found.keys() == direct.keys()
    for request, answer in direct.items():
        assert found[request] == answer, request
    operation = next(key for key in found if "long-running" in key)
    assert len(found[operation]["progress"]) == 4
    assert not [key for key, answer in found.items() if "code" in answer]


async def test_errors_have_the_servers_code_and_text(serve_attached, command):
    """The text names the server besides. An internal error is that of the server (upstream_failed,
    -31503), and none of searchbus.
    """
    direct = await directly(command, FAILING)
    found = await through(serve_attached, command, FAILING)
    codes = {-32603: -31503}
    for request in [key for key in direct if key.startswith(("read", "prompt "))]:
        code = direct[request]["code"]
        assert found[request]["code"] == codes.get(code, code), request
        assert direct[request]["message"] in found[request]["message"], request

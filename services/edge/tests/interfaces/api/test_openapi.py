"""The document: made of the catalogue, for one caller, with schemas that hold."""

from __future__ import annotations

import asyncio
import json

import jsonschema_rs
import pytest

from searchbus_contracts import Actor, ToolAnnotations
from searchbus_edge.catalog.view import View
from searchbus_edge.interfaces.api import openapi as module
from searchbus_edge.interfaces.api.openapi import OpenApi

ALICE, PAYER = Actor(subject="alice"), Actor(subject="bob", roles=("PAYER",))
SCHEMA = {
    "type": "object",
    "properties": {"query": {"$ref": "#/$defs/Query"}},
    "required": ["query"],
    "$defs": {"Query": {"type": "string"}},
}
RESULT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture
def view(make_tool):
    tools = [
        make_tool("find", input_schema=SCHEMA, output_schema=RESULT, untrusted=True, title="Find",
                  examples=("a bus",), annotations=ToolAnnotations(read_only_hint=True)),
        make_tool("paid", required_roles=("PAYER",)),
        make_tool("find", listed_as="atlas_find", toolset="atlas"),
        make_tool("asks", client_capabilities=("sampling",)),
    ]  # fmt: skip
    return View((1, True, 0), tools={tool.name: tool for tool in tools})


@pytest.fixture
def openapi():
    return OpenApi(server_url="/", signed_in=False)


async def made(openapi, view, actor=ALICE, toolsets=()):
    return json.loads(await openapi.document(view, actor, toolsets))


async def test_caller_sees_its_tools(openapi, view):
    """Also one whose name is taken; none that needs a role or a client of MCP."""
    document = await made(openapi, view)
    assert list(document["paths"]) == [
        "/api/v1/tools", "/api/v1/tools/find", "/api/v1/atlas/find",
    ]  # fmt: skip
    assert "/api/v1/tools/paid" in (await made(openapi, view, PAYER))["paths"]
    ids = [op["operationId"] for path in document["paths"].values() for op in path.values()]
    assert ids == ["find_or_list_tools", "find", "atlas_find"]


async def test_operation_has_schemas_and_an_example(openapi, view):
    """Of the arguments, the result and every failure."""
    document = await made(openapi, view)
    operation = document["paths"]["/api/v1/tools/find"]["post"]
    body = operation["requestBody"]["content"]["application/json"]
    validator = jsonschema_rs.Draft202012Validator(
        {**body["schema"], "components": document["components"]}
    )
    assert body["example"] == {"query": "a bus"}
    assert validator.is_valid(body["example"])
    assert not validator.is_valid({})
    assert operation["x-openai-isConsequential"] is False
    result = operation["responses"]["200"]
    assert result["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/FindResult"
    }
    assert "Searchbus-Untrusted" in result["headers"]
    assert {"401", "403", "429", "default"} <= operation["responses"].keys()
    other = document["paths"]["/api/v1/atlas/find"]["post"]
    assert other["x-openai-isConsequential"] is True
    assert "headers" not in other["responses"]["200"]
    assert set(other["responses"]["200"]["content"]) == {
        "text/plain", "application/json", "text/event-stream",
    }  # fmt: skip


async def test_toolsets_can_be_chosen(openapi, view):
    """For hosts that take a limited number of operations."""
    assert list((await made(openapi, view, toolsets=["atlas"]))["paths"]) == ["/api/v1/atlas/find"]


async def test_document_is_kept_while_nothing_changes(openapi, view):
    """Callers with equal roles share it."""
    first = await openapi.document(view, ALICE, [])
    assert await openapi.document(view, Actor(subject="carol"), []) is first
    assert await openapi.document(view, PAYER, []) is not first
    changed = View((2, True, 0), tools=dict(view.tools))
    assert await openapi.document(changed, ALICE, []) is not first


async def test_few_documents_are_kept(openapi, view):
    """Callers choose the toolsets."""
    for number in range(200):
        await openapi.document(view, ALICE, [f"t{number}"])
    assert len(openapi._kept) == 64


async def test_documents_are_kept_within_a_size(openapi, view, monkeypatch):
    """The last ones; one that is too large is made again at each request."""
    first = await openapi.document(view, ALICE, [])
    monkeypatch.setattr(module, "_MAX_KEPT_BYTES", 2 * len(first))
    for number in range(50):
        await openapi.document(view, ALICE, [f"t{number}"])
    assert sum(map(len, openapi._kept.values())) <= 2 * len(first)
    monkeypatch.setattr(module, "_MAX_KEPT_BYTES", 10)
    assert await openapi.document(view, PAYER, []) != first
    assert view.access(PAYER) not in {key[1] for key in openapi._kept}


async def test_document_is_made_once_for_all_who_wait(openapi, view):
    """They get the same one."""
    found = await asyncio.gather(*(openapi.document(view, ALICE, []) for _ in range(5)))
    assert len({id(document) for document in found}) == 1


async def test_credential_is_asked_for_where_callers_sign_in(view):
    """And the address is the public one."""
    document = await made(OpenApi(server_url="https://x.example", signed_in=True), view)
    assert document["security"] == [{"bearer": []}]
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    assert document["servers"] == [{"url": "https://x.example"}]
    assert "security" not in await made(OpenApi(server_url="/", signed_in=False), view)


async def test_problem_is_described(openapi, view):
    """Its example fits its schema."""
    document = await made(openapi, view)
    problem = document["components"]["responses"]["Problem"]["content"]["application/problem+json"]
    validator = jsonschema_rs.Draft202012Validator(
        {**problem["schema"], "components": document["components"]}
    )
    assert validator.is_valid(problem["example"])

"""The document: made of the catalogue, for one caller, with schemas that hold."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager

import jsonschema_rs
import pytest
from fastapi import FastAPI

from searchbus_contracts import Actor, Fault, ToolAnnotations
from searchbus_edge.catalog.view import View
from searchbus_edge.interfaces import openapi as module
from searchbus_edge.interfaces.openapi import Components, OpenApi, path_of, sample_arguments
from searchbus_edge.tools.limits import LocalLimiter
from searchbus_testing import until

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


async def admit(actor: Actor) -> None:
    """Everybody may have every document."""


def make_openapi(**given) -> OpenApi:
    pages = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    pages.get("/api/v1/tools", operation_id="find_or_list_tools")(lambda: None)
    return OpenApi(pages.routes, **{"server_url": "/", "signed_in": False, "admit": admit} | given)


@pytest.fixture
def openapi():
    return make_openapi()


async def made(openapi, view, actor=ALICE, toolsets=()):
    return json.loads((await openapi.document(view, actor, toolsets)).body)


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
    made = [await openapi.document(view, ALICE, [f"t{number}"]) for number in range(200)]
    assert await openapi.document(view, ALICE, ["t136"]) is made[136]
    assert await openapi.document(view, ALICE, ["t135"]) is not made[135]


async def test_documents_are_kept_within_a_size(openapi, view, monkeypatch):
    """The last ones; one that is too large is made again at each request."""
    size = len((await openapi.document(view, ALICE, [])).body)
    for most, is_kept in ((size, True), (size - 1, False)):
        monkeypatch.setattr(module, "_MAX_KEPT_BYTES", most)
        own = make_openapi()
        first = await own.document(view, ALICE, [])
        assert (await own.document(view, ALICE, []) is first) is is_kept
        await own.document(view, ALICE, ["t"])
        assert await own.document(view, ALICE, []) is not first


async def test_document_is_made_once_for_all_who_wait(openapi, view):
    """They get the same one."""
    found = await asyncio.gather(*(openapi.document(view, ALICE, []) for _ in range(5)))
    assert len({id(document) for document in found}) == 1


@contextmanager
def held_up(openapi, monkeypatch):
    """No document is done in the block; gives the lock of the only one that may be made."""
    one, go, make = threading.Lock(), threading.Event(), openapi._make

    def wait(*given):
        assert one.acquire(blocking=False)
        go.wait()
        one.release()
        return make(*given)

    monkeypatch.setattr(openapi, "_make", wait)
    try:
        yield one
    finally:
        go.set()


async def ask(openapi, view, actor, *toolsets):
    """Requests for a document of each of these toolsets, which wait."""
    found = [asyncio.create_task(openapi.document(view, actor, [name])) for name in toolsets]
    await asyncio.sleep(0)
    return found


def few(monkeypatch):
    """Documents that may wait: of one caller, and of all."""
    monkeypatch.setattr(module, "_MAX_OF_CALLER", 4)
    monkeypatch.setattr(module, "_MAX_MAKING", 16)


async def test_documents_of_one_caller_leave_others_their_turn(openapi, view, monkeypatch):
    """Few wait to be made, one at a time; the next is refused, and all that wait are made."""
    few(monkeypatch)
    with held_up(openapi, monkeypatch) as making:
        waiting = await ask(openapi, view, ALICE, "a", "b", "c", "d", "d")
        await until(making.locked)
        with pytest.raises(Fault, match="overloaded") as raised:
            await asyncio.wait_for(openapi.document(view, ALICE, ["e"]), 20)
        assert raised.value.failure.retry_after_ms == 1000
        for name in ("bob", "carol", "dave"):
            waiting += await ask(openapi, view, Actor(subject=name), *(name + n for n in "abcd"))
        with pytest.raises(Fault, match="overloaded"):
            await asyncio.wait_for(openapi.document(view, PAYER, []), 20)
    assert len({id(found) for found in await asyncio.gather(*waiting)}) == 16


async def test_clients_that_leave_make_no_room_for_more(openapi, view, monkeypatch):
    """Their documents are made all the same: a thread cannot be stopped."""
    few(monkeypatch)
    with held_up(openapi, monkeypatch) as making:
        left = await ask(openapi, view, ALICE, *"abcd")
        await until(making.locked)
        for request in left:
            request.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        others = await ask(openapi, view, PAYER, "a")
        with pytest.raises(Fault, match="overloaded"):
            await asyncio.wait_for(openapi.document(view, ALICE, ["e"]), 20)
    await asyncio.gather(*others)
    assert await openapi.document(view, ALICE, ["e"])


async def test_document_that_is_made_counts_as_a_search(view):
    """One that is there costs nothing, and whose limit is reached still gets it."""
    limiter = LocalLimiter(0.001, 2)
    openapi = make_openapi(admit=lambda actor: limiter.admit(actor.subject))
    first = [await openapi.document(view, ALICE, [name]) for name in "ab"]
    with pytest.raises(Fault, match="rate_limited"):
        await openapi.document(view, ALICE, ["c"])
    assert [await openapi.document(view, ALICE, [name]) for name in "ab"] == first
    await openapi.document(view, Actor(subject="carol"), ["c"])


async def test_credential_is_asked_for_where_callers_sign_in(view):
    """And the address is the public one."""
    document = await made(make_openapi(server_url="https://x.example", signed_in=True), view)
    assert document["security"] == [{"bearer": []}]
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    assert document["servers"] == [{"url": "https://x.example"}]
    assert "security" not in await made(make_openapi(), view)


async def test_problem_is_described(openapi, view):
    """Its example fits its schema."""
    document = await made(openapi, view)
    problem = document["components"]["responses"]["Problem"]["content"]["application/problem+json"]
    validator = jsonschema_rs.Draft202012Validator(
        {**problem["schema"], "components": document["components"]}
    )
    assert validator.is_valid(problem["example"])


TREE = {
    "type": "object",
    "title": "Tree",
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "properties": {
        "node": {"$ref": "#/$defs/Node"},
        "again": {"$ref": "#"},
        "first": {"$ref": "#/$defs/Node/properties/name"},
        "same": {"$ref": "#/properties/node"},
        "enum": {"type": "string", "enum": ["$ref", "a"]},
        "old": {"$ref": "#/definitions/a~1b"},
    },
    "required": ["node"],
    "$defs": {
        "Node": {
            "type": "object",
            "title": "Node",
            "properties": {
                "name": {"type": "string", "default": {"$ref": "#/not/a/reference"}},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            },
        }
    },
    "definitions": {"a/b": {"type": "integer"}},
}
VALUES = [
    {"node": {"name": "a", "children": [{"name": "b"}]}, "again": {"node": {}}},
    {"node": {"name": 5}},
    {"node": {"children": [{"children": [{"name": 5}]}]}},
    {"node": {}, "first": 5},
    {"node": {}, "same": {"name": 5}},
    {"node": {}, "again": {}},
    {"node": {}, "old": "x"},
    {"node": {}, "old": 7, "enum": "$ref"},
    {},
]


def within(components, reference):
    """A validator of a component."""
    return jsonschema_rs.Draft202012Validator({**reference, "components": {
        "schemas": components.schemas}})  # fmt: skip


def test_moved_schema_accepts_the_same_values():
    """References to definitions, to the root, and into them."""
    components = Components()
    moved = within(components, components.add("tree arguments", TREE))
    own = jsonschema_rs.Draft202012Validator(TREE)
    accepted = [own.is_valid(value) for value in VALUES]
    assert [moved.is_valid(value) for value in VALUES] == accepted
    assert set(accepted) == {True, False}


def test_definitions_are_components_without_titles():
    """Generators read no other references, and name classes by titles."""
    components = Components()
    assert components.add("tree arguments", TREE) == {"$ref": "#/components/schemas/TreeArguments"}
    assert set(components.schemas) == {"TreeArguments", "TreeArgumentsNode", "TreeArgumentsAB"}
    node = components.schemas["TreeArgumentsNode"]
    assert node["properties"]["children"]["items"] == {
        "$ref": "#/components/schemas/TreeArgumentsNode"
    }
    assert node["properties"]["name"]["default"] == {"$ref": "#/not/a/reference"}
    assert "title" not in node
    assert "$schema" not in components.schemas["TreeArguments"]


def test_names_are_unique_without_regard_to_case():
    """Two tools may differ by an underscore."""
    components = Components()
    names = [components.add(name, {"type": "object"})["$ref"] for name in ("a_b", "aB", "ab", "-")]
    assert names == [f"#/components/schemas/{n}" for n in ("AB", "AB2", "Ab3", "Schema")]


def test_given_schema_is_not_changed():
    """It is the registry's own."""
    before = repr(TREE)
    Components().add("tree", TREE)
    assert repr(TREE) == before


@pytest.mark.parametrize(
    ("array", "items"),
    [
        ({"type": "array"}, {}),
        ({"type": ["array", "null"]}, {}),
        ({"type": "array", "items": {"type": "string"}}, {"type": "string"}),
        ({"type": "array", "prefixItems": [{}], "unevaluatedItems": False}, None),
    ],
)
def test_array_says_what_its_items_are(array, items):
    """openapi-python-client leaves out every operation with an array that does not."""
    components = Components()
    components.add("many", {"type": "object", "properties": {"a": {"anyOf": [array]}}})
    assert components.schemas["Many"]["properties"]["a"]["anyOf"][0].get("items") == items


@pytest.mark.parametrize("part", [{"$anchor": "x"}, {"$ref": "#x"}, {"$dynamicRef": "#/x"}])
def test_schema_that_cannot_be_moved_is_any_object(part):
    """The tool checks its arguments anyway."""
    components = Components()
    schema = {"type": "object", "properties": {"a": part}, "$defs": {"B": {}}}
    components.add("odd", schema)
    assert components.schemas == {"Odd": {"type": "object"}}


def tool(make_tool, properties, required=None, **options):
    schema = {"type": "object", "properties": properties, "$defs": {"Word": {"type": "string"}},
              "required": list(properties) if required is None else required}  # fmt: skip
    return make_tool(input_schema=schema, **options)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "a"),
        ({"type": "string", "format": "date"}, "2026-01-31"),
        ({"type": "string", "examples": ["x", "y"]}, "x"),
        ({"enum": ["p", "q"]}, "p"),
        ({"const": 5}, 5),
        ({"type": "integer", "minimum": 3}, 3),
        ({"type": "integer", "default": 4}, 4),
        ({"type": ["null", "boolean"]}, False),
        ({"anyOf": [{"type": "null"}, {"type": "number"}]}, 1),
        ({"type": "array", "items": {"type": "string"}}, ["a"]),
        ({"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
         {"b": "b"}),
        ({"$ref": "#/$defs/Word"}, "a"),
    ],
)  # fmt: skip
def test_each_kind_of_argument_has_a_value(make_tool, schema, value):
    assert sample_arguments(tool(make_tool, {"a": schema})) == {"a": value}


def test_questions_are_those_of_the_tool(make_tool):
    """What its descriptor says it serves."""
    listed = tool(make_tool, {"query": {"type": "string"}}, examples=("how high is the rate",))
    assert sample_arguments(listed) == {"query": "how high is the rate"}


def test_optional_arguments_are_left_out(make_tool):
    """A tool without arguments has an empty example."""
    assert sample_arguments(tool(make_tool, {"a": {"type": "string"}}, required=[])) == {}
    assert sample_arguments(make_tool()) == {}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^[0-9]+$"},
        {"not": {}},
        {"$ref": "#/$defs/absent"},
        {"type": "array", "items": {"type": "string"}, "minItems": 3},
    ],
)
def test_no_example_is_better_than_a_wrong_one(make_tool, schema):
    assert sample_arguments(tool(make_tool, {"a": schema})) is None


def test_schema_that_repeats_itself_ends(make_tool):
    """Ten objects within each of ten: it is not followed to its end."""
    again = {f"p{number}": {"$ref": "#"} for number in range(10)}
    assert sample_arguments(tool(make_tool, again)) is None


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({}, "/api/v1/tools/say"),
        ({"listed_as": "office_say"}, "/api/v1/office/say"),
        ({"listed_as": "x__say", "qualified_name": "x__say"}, "/api/v1/tools/x__say"),
        ({"listed_as": "tools_say", "toolset": "tools"}, "/api/v1/tools/tools_say"),
    ],
)
def test_tool_is_shown_under_its_toolset_where_its_name_is_taken(make_tool, options, path):
    """A toolset `tools` has no address of its own."""
    assert path_of(make_tool("say", **options)) == path

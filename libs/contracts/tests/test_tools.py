"""Descriptors of tools, their schemas, and the messages of a call."""

from __future__ import annotations

from typing import Annotated, Any, get_type_hints

import jsonschema
import msgspec
import pytest
from msgspec import Meta, Struct

from searchbus_contracts import (
    Fault,
    ImageContent,
    ResourceLink,
    TextContent,
    ToolAnnotations,
    ToolCall,
    ToolDescriptor,
    ToolEvent,
    ToolReply,
    decode,
    encode,
    input_schema,
    json_schema,
)
from searchbus_contracts.tools import ToolOptions


def test_options_of_a_tool_are_fields_of_its_descriptor():
    """With the same types; mypy checks the arguments of `@tool` against them."""
    fields = get_type_hints(ToolDescriptor)
    options = get_type_hints(ToolOptions)
    assert options == {name: fields.get(name) for name in options}


class Place(Struct):
    """A place."""

    city: str


class Arguments(Struct, forbid_unknown_fields=True):
    """Not for a model."""

    word: Annotated[str, Meta(min_length=1, max_length=5, description="The word.")]
    at: Place | None = None


class Tree(Struct):
    children: list[Tree] = []


def descriptor(**changes: Any) -> ToolDescriptor:
    return ToolDescriptor(
        **{
            "name": "lookup",
            "toolset": "words",
            "description": "d",
            "input_schema": {"type": "object"},
            **changes,
        }
    )


@pytest.mark.parametrize("kind", [Arguments, Place, Tree])
def test_a_schema_has_its_type_at_the_top_level(kind):
    """MCP requires it; other types are in $defs, and the schema is valid."""
    schema = json_schema(kind)
    assert schema["type"] == "object"
    assert "$ref" not in schema
    jsonschema.Draft202012Validator.check_schema(schema)


def test_only_types_that_are_referred_to_are_in_defs():
    """A recursive type refers to itself."""
    assert set(json_schema(Arguments)["$defs"]) == {"Place"}
    assert set(json_schema(Tree)["$defs"]) == {"Tree"}
    assert "$defs" not in json_schema(Place)


def test_the_schema_of_arguments_has_no_heading():
    """The Struct's name and docstring say nothing to a model; those of the fields do."""
    schema = input_schema(Arguments)
    assert not schema.keys() & {"title", "description"}
    assert schema["properties"]["word"]["description"] == "The word."
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("arguments", "valid"),
    [
        ({"word": "bus"}, True),
        ({"word": "bus", "at": {"city": "Bern"}}, True),
        ({"word": ""}, False),
        ({"word": "longer"}, False),
        ({"word": "bus", "more": 1}, False),
        ({}, False),
    ],
)
def test_the_schema_accepts_what_the_struct_accepts(arguments, valid):
    """A client that validates meets the same limits as the worker."""
    assert jsonschema.Draft202012Validator(input_schema(Arguments)).is_valid(arguments) is valid
    if valid:
        decode(encode(arguments), Arguments)
    else:
        with pytest.raises(Fault):
            decode(encode(arguments), Arguments)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "a b"}, "subject token"),
        ({"toolset": "a.b"}, "subject token"),
        ({"input_schema": {}}, "input_schema"),
        ({"input_schema": {"type": "array"}}, "input_schema"),
        ({"output_schema": {"type": "string"}}, "output_schema"),
    ],
)
def test_a_descriptor_that_clients_refuse_cannot_be_made(changes, message):
    """One such tool would make a client refuse the whole list."""
    with pytest.raises(ValueError, match=message):
        descriptor(**changes)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"description": ""}, "description"),
        ({"description": "x" * 8193}, "description"),
        ({"timeout_ms": 0}, "timeout_ms"),
        ({"timeout_ms": 600_001}, "timeout_ms"),
        ({"examples": ["x"] * 51}, "examples"),
        ({"renderer": "html"}, "renderer"),
    ],
)
def test_limits_of_a_descriptor_are_checked_when_it_is_decoded(changes, field):
    """Constructors do not check them."""
    body = msgspec.to_builtins(descriptor()) | changes
    with pytest.raises(Fault, match=field):
        decode(encode(body), ToolDescriptor)


def test_annotations_are_camel_case_and_optional():
    """As in MCP; a hint that is None is omitted."""
    annotations = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    assert encode(annotations) == b'{"readOnlyHint":true,"openWorldHint":false}'


def test_arguments_of_a_call_stay_as_they_came():
    """The worker decodes them into the tool's own type."""
    call = decode(b'{"tool": "lookup", "arguments": {"word":  "bus"}}', ToolCall)
    assert bytes(call.arguments) == b'{"word":  "bus"}'
    assert bytes(ToolCall(tool="lookup").arguments) == b"{}"


@pytest.mark.parametrize(
    ("content", "body"),
    [
        (TextContent(text="a"), {"type": "text", "text": "a"}),
        (
            ImageContent(data="AA==", mime_type="image/png"),
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
        ),
        (ResourceLink(uri="a:b", name="n"), {"type": "resource_link", "uri": "a:b", "name": "n"}),
    ],
)
def test_content_is_that_of_mcp(content, body):
    """The edge passes it on."""
    assert msgspec.to_builtins(content) == body
    assert decode(encode(ToolReply(content=(content,))), ToolReply).content == (content,)


@pytest.mark.parametrize("level", ["debug", "emergency"])
def test_events_have_the_levels_of_syslog(level):
    """Others are refused."""
    assert decode(encode({"kind": "log", "level": level}), ToolEvent).level == level
    with pytest.raises(Fault, match="level"):
        decode(encode({"kind": "log", "level": "loud"}), ToolEvent)

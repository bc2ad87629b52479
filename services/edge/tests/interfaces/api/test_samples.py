"""Example arguments: valid by the tool's own schema, or none."""

from __future__ import annotations

import pytest

from searchbus_edge.interfaces.api.samples import sample_arguments


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

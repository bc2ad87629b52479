"""Schemas of tools as components: references lead to the same places, names are unique."""

from __future__ import annotations

import jsonschema_rs
import pytest

from searchbus_edge.interfaces.api.schemas import Components

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


@pytest.mark.parametrize("part", [{"$anchor": "x"}, {"$ref": "#x"}, {"$dynamicRef": "#/x"}])
def test_schema_that_cannot_be_moved_is_any_object(part):
    """The tool checks its arguments anyway."""
    components = Components()
    schema = {"type": "object", "properties": {"a": part}, "$defs": {"B": {}}}
    components.add("odd", schema)
    assert components.schemas == {"Odd": {"type": "object"}}

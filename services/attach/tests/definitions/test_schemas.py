"""Schemas of older drafts say the same in 2020-12; schemas that cannot be used say why."""

from __future__ import annotations

import jsonschema_rs
import pytest

from searchbus_attach.definitions.schemas import SchemaFault, modern_schema


def accepts(schema, value) -> bool:
    return jsonschema_rs.Draft202012Validator(schema).is_valid(value)


def test_a_tuple_of_draft_7_is_checked_as_one():
    """`items` as a list, and what comes after it."""
    given = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "point": {
                "type": "array",
                "items": [{"type": "number"}, {"type": "string"}],
                "additionalItems": False,
            }
        },
    }
    schema = modern_schema(given)
    assert "$schema" not in schema
    assert accepts(schema, {"point": [1, "x"]})
    assert not accepts(schema, {"point": ["x", 1]})
    assert not accepts(schema, {"point": [1, "x", 2]})
    assert given["properties"]["point"]["items"], "the server's own schema is not changed"


def test_properties_and_values_with_names_of_keywords_stay():
    """`items` may be a property, and an enum may hold anything."""
    given = {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {"type": "string"}},
            "additionalItems": {"type": "string"},
            "kind": {"enum": [{"items": [1]}, "x"], "default": {"exclusiveMinimum": True}},
        },
    }
    assert modern_schema(given) == given


def test_limits_of_draft_4_and_dependencies_of_draft_7():
    """A boolean beside the limit; one keyword for two."""
    schema = modern_schema({
        "type": "object",
        "properties": {"n": {"type": "number", "minimum": 3, "exclusiveMinimum": True}},
        "dependencies": {"a": ["b"], "c": {"required": ["d"]}},
    })  # fmt: skip
    assert accepts(schema, {"n": 4})
    assert not accepts(schema, {"n": 3})
    assert not accepts(schema, {"a": 1})
    assert not accepts(schema, {"c": 1})
    assert accepts(schema, {"a": 1, "b": 1, "c": 1, "d": 1})


def test_a_schema_without_a_type_is_one_of_an_object():
    """Hosts refuse the whole list because of one without."""
    assert modern_schema({}) == {"type": "object"}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (None, "not an object"),
        ([], "not an object"),
        ({"type": "string"}, "string"),
        ({"properties": {"x": {"$ref": "https://example.org/x.json"}}}, "outside"),
        ({"properties": {"x": {"$ref": "file:///etc/passwd"}}}, "outside"),
        ({"properties": {"x": {"type": "nothing"}}}, "nothing"),
        ({"properties": 3}, "3"),
    ],
)
def test_a_schema_that_cannot_be_used_says_why(schema, reason):
    """Nothing is fetched."""
    with pytest.raises(SchemaFault, match=reason):
        modern_schema(schema)


def test_a_schema_without_end_is_refused():
    """Before it is compiled."""
    deep: dict = {"type": "object"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"x": deep}}
    with pytest.raises(SchemaFault, match="levels"):
        modern_schema(deep)


def test_descriptions_inside_are_text_too():
    """What nobody sees is taken out of them."""
    found = modern_schema({"properties": {"x": {"description": "a\u202eb"}}})
    assert found["properties"]["x"]["description"] == "ab"


def test_a_pattern_that_takes_long_to_compile_is_left_out():
    """The server checks it itself; of names of properties it cannot be left out."""
    costly = {"type": "string", "pattern": r"\p{L}{200}", "minLength": 1}
    found = modern_schema({"properties": {"x": costly, "y": {"pattern": "^a$"}}})
    assert found["properties"] == {"x": {"type": "string", "minLength": 1}, "y": {"pattern": "^a$"}}
    with pytest.raises(SchemaFault, match="patternProperties"):
        modern_schema({"patternProperties": {costly["pattern"]: {}}})


@pytest.mark.parametrize("where", ["name", "enum", "const", "default", "examples", "x-anything"])
def test_a_schema_that_hides_text_is_refused(where):
    """Names and values cannot be changed: the server needs them."""
    hidden = "red" + "".join(chr(0xE0000 + ord(char)) for char in "delete all")
    value = [hidden] if where in ("enum", "examples") else {"a": hidden}
    schema = {hidden: {}} if where == "name" else {"x": {where: value}}
    with pytest.raises(SchemaFault, match="nobody sees"):
        modern_schema({"properties": schema})


def test_text_is_hidden_in_no_keyword_either():
    """One that nobody knows, and what a property depends on in draft 7."""
    hidden = "".join(chr(0xE0000 + ord(char)) for char in "delete all")
    for schema in ({hidden: 1}, {"items": {hidden: 1}}, {"dependencies": {"a": [hidden]}}):
        with pytest.raises(SchemaFault, match="nobody sees"):
            modern_schema({"type": "object", **schema})


def test_values_nested_without_end_are_refused():
    """As the schemas are."""
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(SchemaFault):
        modern_schema({"properties": {"x": {"default": deep}}})

"""Schemas in the form that clients read accept what they accepted before."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from searchbus_contracts.schemas import MAX_DEPTH, check_schema
from searchbus_edge.catalog import render
from searchbus_edge.catalog.client_schema import client_schema, with_nulls
from searchbus_edge.catalog.view import validator

TYPES = ("null", "boolean", "object", "array", "number", "integer", "string")
COMBINED = ("$ref", "allOf", "anyOf", "oneOf")


def or_null(keyword):
    """The check of a keyword, which lets null pass where `nullable` says so."""
    check = Draft202012Validator.VALIDATORS[keyword]

    def checked(checker, value, instance, schema):
        says = any(key in schema for key in ("type", *COMBINED))
        first = keyword in ("type", "enum") or "type" not in schema
        if not (instance is None and schema.get("nullable") is True and says and first):
            yield from check(checker, value, instance, schema) or ()

    return checked


OpenApiValidator = extend(Draft202012Validator, {key: or_null(key) for key in ("type", "enum")})
"""Reads `nullable` beside a type as OpenAPI 3.0 does."""

scalars = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "bb", 1.0, 1.5])
)
instances = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=8,
)
REFERENCES = (
    "#/definitions/d", "#/$defs/e", "#/properties/a", "#/properties/a/items", "#/definitions/d/items",
    "#/properties/a/properties/b", "#/$defs/e/prefixItems/0", "#/properties/b/additionalProperties",
)  # fmt: skip


def keywords(inner):
    """Objects of keywords, with types that may be lists."""
    count = st.integers(0, 3)
    return st.fixed_dictionaries({}, optional={
        "type": st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, unique=True),
        "enum": st.lists(scalars, min_size=1, max_size=4, unique_by=json.dumps),
        "const": scalars,
        "description": st.just("what"), "default": scalars,
        "properties": st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
        "required": st.lists(st.sampled_from(["a", "b"]), unique=True),
        "additionalProperties": inner | st.booleans(),
        "unevaluatedProperties": inner | st.booleans(),
        "patternProperties": st.dictionaries(st.just("^c"), inner, max_size=1),
        "dependentSchemas": st.dictionaries(st.just("a"), inner, max_size=1),
        "minProperties": count,
        "items": inner, "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "contains": inner, "minContains": count, "unevaluatedItems": inner | st.booleans(),
        "maxItems": count, "uniqueItems": st.booleans(),
        "minLength": count, "pattern": st.just("a"), "format": st.just("date"),
        "minimum": count, "exclusiveMaximum": count, "multipleOf": st.sampled_from([1, 0.5]),
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "oneOf": st.lists(inner, min_size=1, max_size=2),
        "allOf": st.lists(inner, min_size=1, max_size=2),
        "not": inner, "if": inner, "then": inner, "else": inner,
        "id": st.just("x"),
    })  # fmt: skip


parts = st.recursive(
    st.fixed_dictionaries({"type": st.lists(st.sampled_from(TYPES), min_size=1, unique=True)})
    | st.fixed_dictionaries({"$ref": st.sampled_from(REFERENCES)}),
    keywords,
    max_leaves=12,
)


@st.composite
def schemas(draw):
    """Of an object, with definitions under both names."""
    found = draw(keywords(parts))
    found.pop("id", None)
    # At the root only: it has no meaning in a part, by which jsonschema would change its dialect.
    found["$schema"] = "http://json-schema.org/draft-07/schema#"
    found["type"] = "object"
    found["definitions"] = {"d": {"items": True, **draw(parts)}}
    found["$defs"] = {"e": {"prefixItems": [True], **draw(parts)}}
    a = {"items": {"type": "string"}, "properties": {"b": {"type": ["string", "null"]}}}
    found["properties"] = {
        "a": {**a, "type": draw(st.permutations(["array", "object", "null"]))},
        "b": {"additionalProperties": True, **draw(parts)},
        "c": draw(parts),
    }
    try:
        check_schema(found)  # as every descriptor is
    except ValueError:
        assume(False)
    return found


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(schemas(), st.lists(st.dictionaries(st.sampled_from("abc"), instances), min_size=1))
def test_the_same_arguments_are_valid(schema, values):
    """Whatever the schema combines, also by references to parts that move.

    No list of types is left, no word of an older draft, and the size is linear.
    """
    before = json.dumps(schema)
    found = client_schema(schema)
    old, new = Draft202012Validator(schema), Draft202012Validator(found)
    new.check_schema(found)
    for value in values:
        assert new.is_valid(value) == old.is_valid(value)
    assert json.dumps(schema) == before, "the descriptor's own schema is not changed"
    text = json.dumps(found)
    assert '"type": [' not in text
    assert '"definitions"' not in text
    assert '"$schema"' not in text
    assert len(text) <= 6 * len(before) + 200 * before.count('"')


nullable = st.recursive(
    st.sampled_from([{"type": "string"}, {"type": ["integer", "string"]}, {"type": "array"}]),
    lambda inner: st.fixed_dictionaries(
        {"type": st.sampled_from(["object", "array", "string"]), "nullable": st.booleans()},
        optional={
            "enum": st.lists(scalars, min_size=1, max_size=3, unique_by=json.dumps),
            "properties": st.dictionaries(st.sampled_from("ab"), inner),
            "items": inner,
        },
    ),
    max_leaves=6,
)


@settings(max_examples=100)
@given(nullable, st.dictionaries(st.just("x"), instances))
def test_nullable_is_read_as_openapi_reads_it(part, instance):
    """By clients and by the check of arguments."""
    schema = {"type": "object", "properties": {"x": part}}
    wanted = OpenApiValidator(schema).is_valid(instance)
    for found in (client_schema(schema), with_nulls(schema)):
        assert Draft202012Validator(found).is_valid(instance) == wanted
        assert "nullable" not in json.dumps(found)


@pytest.mark.parametrize("part", [
    {"$ref": "#/$defs/a"}, {"allOf": [{"$ref": "#/$defs/a"}]}, {"oneOf": [{"$ref": "#/$defs/a"}]},
    {"anyOf": [{"type": "string"}, {"type": "integer"}]},
])  # fmt: skip
def test_nullable_beside_a_reference_accepts_null(make_tool, part):
    """Generators of OpenAPI write it so."""
    schema = {
        "type": "object",
        "properties": {"x": {**part, "nullable": True, "description": "what"}},
        "$defs": {"a": {"type": "string"}},
    }
    tool = make_tool(input_schema=schema)
    for accepts in (tool.validator, validator(tool.input_schema)):
        assert accepts.is_valid({"x": None})
        assert accepts.is_valid({"x": "a"})
        assert not accepts.is_valid({"x": []})
    assert tool.repair({"x": None}) == {"x": None}


def test_each_branch_has_the_words_of_its_type():
    """As converters to classes write unions themselves; the rest stays beside."""
    given_ = {"type": ["array", "string", "null"], "items": {"type": "string"}, "maxLength": 3,
              "description": "what", "default": None}  # fmt: skip
    assert client_schema(given_) == {
        "anyOf": [{"type": "array", "items": {"type": "string"}},
                  {"type": "string", "maxLength": 3}, {"type": "null"}],
        "description": "what", "default": None,
    }  # fmt: skip


def test_what_converters_fail_for_is_said_in_other_words():
    """A property without a type, a list that ends after a tuple, a number format of OpenAPI."""
    schema = {"type": "object", "properties": {
        "any": {"description": "what"},
        "pair": {"type": "array", "prefixItems": [{"type": "number"}], "items": False},
        "whole": {"type": "integer", "format": "int64"}, "fixed": {"const": "a"},
    }}  # fmt: skip
    found = client_schema(schema)["properties"]
    assert [branch["type"] for branch in found["any"]["anyOf"]] == [
        "string", "number", "boolean", "object", "array", "null",
    ]  # fmt: skip
    assert found["pair"] == {"type": "array", "prefixItems": [{"type": "number"}], "maxItems": 1}
    assert found["whole"] == {"type": "integer"}
    assert found["fixed"] == {"const": "a", "type": "string"}


def test_names_and_values_that_look_like_keywords_stay():
    """`definitions`, `type` and `nullable` may be properties."""
    schema = {
        "type": "object",
        "properties": {
            "definitions": {"type": "object", "properties": {"$ref": {"type": "string"}}},
            "nullable": {"type": "object", "const": {"type": ["a", "b"], "nullable": True}},
            "type": {"enum": [{"definitions": {}}], "default": {"type": ["string", "null"]}},
            "id": {"type": "string"},
        },
    }
    assert client_schema(schema) is schema
    assert with_nulls(schema) is schema


def test_definitions_with_the_names_of_others_stay():
    """Neither replaces the other."""
    schema = {"type": "object", "$defs": {"a": {"type": "string"}},
              "definitions": {"a": {"type": "integer"}},
              "properties": {"x": {"$ref": "#/definitions/a"}, "y": {"$ref": "#/$defs/a"}}}  # fmt: skip
    assert client_schema(schema) == schema


def test_the_deepest_schema_is_listed(make_tool):
    """Each level a union; the limit of levels is the descriptor's."""
    schema: dict = {"type": ["array", "null"]}
    for _ in range(MAX_DEPTH - 6):
        schema = {"type": ["array", "null"], "items": schema}
    whole = {"type": "object", "properties": {"x": schema}}
    listed = make_tool(input_schema=whole, output_schema=whole)
    text = render.tool(listed).model_dump_json()
    assert '"type":[' not in text
    assert len(text) < 20 * len(json.dumps(whole))


def test_pins_compare_the_workers_own_schema(make_tool):
    """What an operator approved stays approved when the form for clients changes."""
    schema = {"type": "object", "properties": {"x": {"type": ["string", "null"]}}}
    listed = make_tool(input_schema=schema)
    assert listed.input_schema != schema
    assert listed.descriptor.input_schema == schema

"""What a view fixes is in no part of the schema that callers see."""

from __future__ import annotations

import json

import jsonschema_rs
import pytest

from searchbus_attach.definitions import fixed
from searchbus_attach.definitions.fixed import without_arguments
from searchbus_attach.definitions.schemas import modern_schema

BASE = {"type": "object", "properties": {"root": {}, "path": {}}, "required": ["root"]}


def accepts(schema, value) -> bool:
    return jsonschema_rs.Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(
    "schema",
    [
        BASE,
        {"allOf": [BASE]},
        {"$ref": "#/$defs/base", "$defs": {"base": BASE}},
        {"anyOf": [{"$ref": "#/definitions/base"}], "definitions": {"base": BASE}},
        {"$ref": "#/$defs/more", "$defs": {
            "more": {"allOf": [{"$ref": "#/$defs/base"}]}, "base": BASE}},
        {"dependentRequired": {"path": ["root"], "root": ["path"]}},
        {"dependentSchemas": {"path": BASE, "root": {"required": ["path"]}}},
        {"if": {"required": ["path"]}, "then": {"required": ["root"]}},
        {"if": {"properties": {"root": {"const": 1}}}, "then": {"required": ["x"]}},
    ],
)  # fmt: skip
def test_a_fixed_argument_is_neither_needed_nor_shown(schema):
    """Wherever the server's schema speaks of it."""
    given = modern_schema(schema)
    before = json.dumps(given)
    found = without_arguments(given, {"root"})
    assert accepts(found, {"path": "x"})
    assert "root" not in json.dumps(found)
    assert json.dumps(given) == before, "the approved definition is not changed"


def test_what_is_said_of_other_arguments_counts():
    """In definitions and conditions too."""
    given = modern_schema({
        "allOf": [{"$ref": "#/$defs/base"}], "$defs": {"base": {**BASE, "required": ["path"]}},
        "if": {"required": ["a"]}, "then": {"required": ["b"]},
    })  # fmt: skip
    found = without_arguments(given, {"root"})
    assert not accepts(found, {})
    assert not accepts(found, {"path": "x", "a": 1})
    assert accepts(found, {"path": "x", "a": 1, "b": 1})


def test_conditions_of_conditions_are_looked_at_once(monkeypatch):
    """Sixty levels, which a schema may have, took longer than anybody lives."""
    levels, looks = 12, []
    given = {"required": ["path"]}
    for _ in range(levels):
        given = {"if": given, "then": {"minProperties": 1}}
    apply = fixed._Hiding.apply
    monkeypatch.setattr(
        fixed._Hiding, "apply", lambda self, part: looks.append(part) or apply(self, part)
    )
    found = without_arguments(modern_schema(given), {"root"})
    assert found == modern_schema(given)
    assert len(looks) <= 3 * (levels + 1)


def test_a_definition_that_is_often_referred_to_makes_no_large_schema():
    """One of 200 KiB became 28 MiB, and the catalogue of all servers is limited."""
    base = {"properties": {f"p{n}": {"description": "x" * 2000} for n in range(100)}}
    given = modern_schema({"allOf": [{"$ref": "#/$defs/base"}] * 140, "$defs": {"base": base}})
    assert without_arguments(given, {"root"}) == {"type": "object"}
    twice = modern_schema({"allOf": [{"$ref": "#/$defs/base"}] * 2, "$defs": {"base": base}})
    assert "p99" in json.dumps(without_arguments(twice, {"root"}))


def test_a_definition_that_others_refer_to_stays():
    """As the type of another argument."""
    given = modern_schema({
        "$ref": "#/$defs/base",
        "properties": {"child": {"$ref": "#/$defs/base"}},
        "$defs": {"base": BASE},
    })  # fmt: skip
    found = without_arguments(given, {"root"})
    assert accepts(found, {"child": {"root": 1}})
    assert not accepts(found, {"child": {}})


def test_nothing_fixed_changes_nothing():
    """The very same schema."""
    assert without_arguments(BASE, {}) is BASE

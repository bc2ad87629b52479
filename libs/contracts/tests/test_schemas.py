"""Schemas of others: nothing outside is referred to, and validating has a price limit."""

from __future__ import annotations

from typing import Any

import pytest

from searchbus_contracts.schemas import (
    MAX_APPLIED,
    MAX_DEPTH,
    check_schema,
    foreign_dialect,
    levels,
    mapped,
    resolved,
)


def doubling(depth: int) -> dict[str, object]:
    """Each definition refers twice to the next: 2^depth parts apply to one value."""
    definitions = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(depth)
    }
    definitions[f"d{depth}"] = {"type": "string"}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


def nested(depth: int) -> dict[str, object]:
    schema: dict[str, object] = {}
    for _ in range(depth):
        schema = {"items": schema}
    return {"type": "object", "properties": {"a": schema}}


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$ref": "http://127.0.0.1/x"}, "outside"),
        ({"properties": {"a": {"anyOf": [{"$ref": "file:///etc/passwd"}]}}}, "outside"),
        ({"$dynamicRef": "other.json"}, "outside"),
        ({"$recursiveRef": "//127.0.0.1/x"}, "outside"),
        ({"properties": {"a": {"$id": "http://127.0.0.1/x", "$ref": "#/b"}}}, r"\$id"),
        ({"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}, r"\$anchor"),
        ({"$ref": "#"}, "without end"),
        ({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"not": {"$ref": "#"}}}}, "without end"),
        ({"$ref": "#x", "$defs": {"a": {"$anchor": "x", "if": {"$ref": "#x"}}}}, "without end"),
        ({"$ref": "#/%24defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "without end"),
        (doubling(12), "apply to one value"),
        (doubling(2000), "over too many steps|apply to one value"),
        ({"anyOf": [{"const": n} for n in range(MAX_APPLIED + 1)]}, "apply to one value"),
        (nested(MAX_DEPTH), "levels deep"),
        ({"enum": list(range(30_000))}, "values"),
        ({"properties": {"a": {"pattern": "a" * 1001}}}, "pattern"),
        ({"patternProperties": {"a" * 1001: {}}}, "pattern"),
    ],
)
def test_what_could_fetch_or_run_long_is_refused(schema, reason):
    with pytest.raises(ValueError, match=reason):
        check_schema({"type": "object", **schema})


@pytest.mark.parametrize(
    "schema",
    [
        {}, doubling(6), nested(20),
        {"$id": "https://example.org/tool", "$ref": "#/$defs/a", "$defs": {"a": {}}},
        # A tree, which refers to itself one level further down.
        {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}},
        {"properties": {"$id": {"type": "string"}, "$ref": {"type": "string"}, "pattern": {}}},
        {"anyOf": [{"const": n} for n in range(MAX_APPLIED - 1)]},
        {"$ref": "#/$defs/missing"}, {"$ref": "#/anyOf/0", "anyOf": [{"type": "object"}]},
    ],
)  # fmt: skip
def test_usual_schemas_pass(schema):
    check_schema({"type": "object", **schema})


def test_another_dialect_is_named():
    """It is read as 2020-12, and whoever reads it can say so."""
    assert foreign_dialect({"$schema": "https://json-schema.org/draft/2020-12/schema"}) is None
    assert foreign_dialect({}) is None
    draft = "http://json-schema.org/draft-07/schema#"
    assert foreign_dialect({"$schema": draft}) == draft
    assert foreign_dialect({"$schema": "x" * 999}) == "x" * 200


def test_a_change_reaches_every_schema_and_nothing_else():
    """A property or a value that is named like a keyword is none of them."""
    schema = {
        "title": "a",
        "properties": {"title": {"title": "b", "const": {"title": "value"}}},
        "anyOf": [{"title": "c"}, True],
        "items": {"title": "d", "not": {"title": "e"}},
        "examples": [{"title": "example"}],
    }

    def without_titles(part: Any) -> Any:
        if not isinstance(part, dict):
            return part
        return {k: mapped(k, v, without_titles) for k, v in part.items() if k != "title"}

    assert without_titles(schema) == {
        "properties": {"title": {"const": {"title": "value"}}},
        "anyOf": [{}, True],
        "items": {"not": {}},
        "examples": [{"title": "example"}],
    }


def test_values_come_level_by_level():
    """A reader can stop before the next level."""
    assert list(levels({"a": [1, {"b": 2}]})) == [
        [{"a": [1, {"b": 2}]}],
        [[1, {"b": 2}]],
        [1, {"b": 2}],
        [2],
    ]


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("#/$defs/a~1b%20c", 1), ("#/allOf/1", True), ("#/allOf/2", None), ("#/$defs/none", None),
        ("#anchor", None), ("https://x.example/#/$defs", None),
    ],
)  # fmt: skip
def test_a_local_reference_names_a_part(reference, found):
    """As JSON Pointer in a fragment; what names nothing is None."""
    assert resolved(reference, {"$defs": {"a/b c": 1}, "allOf": [{}, True]}) == found
    assert resolved("#", schema := {"type": "object"}) is schema

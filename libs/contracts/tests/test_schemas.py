"""Schemas of others: nothing outside is referred to, and validating has a price limit."""

from __future__ import annotations

import pytest

from searchbus_contracts.schemas import MAX_APPLIED, MAX_DEPTH, check_schema, foreign_dialect


def doubling(levels: int) -> dict[str, object]:
    """Each definition refers twice to the next: 2^levels parts apply to one value."""
    definitions = {
        f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(levels)
    }
    definitions[f"d{levels}"] = {"type": "string"}
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

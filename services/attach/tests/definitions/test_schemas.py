"""Schemas of older drafts say the same in 2020-12; schemas that cannot be used say why."""

from __future__ import annotations

import jsonschema_rs
import pytest

from searchbus_attach.definitions import schemas as fitting
from searchbus_attach.definitions.schemas import MAX_PATTERNS, Fitting, SchemaError, modern_schema


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
    with pytest.raises(SchemaError, match=reason):
        modern_schema(schema)


def test_a_schema_without_end_is_refused():
    """Before it is compiled."""
    deep: dict = {"type": "object"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"x": deep}}
    with pytest.raises(SchemaError, match="levels"):
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
    with pytest.raises(SchemaError, match="patternProperties"):
        modern_schema({"patternProperties": {costly["pattern"]: {}}})


@pytest.mark.parametrize("where", ["name", "enum", "const", "default", "examples", "x-anything"])
def test_a_schema_that_hides_text_is_refused(where):
    """Names and values cannot be changed: the server needs them."""
    hidden = "red" + "".join(chr(0xE0000 + ord(char)) for char in "delete all")
    value = [hidden] if where in ("enum", "examples") else {"a": hidden}
    schema = {hidden: {}} if where == "name" else {"x": {where: value}}
    with pytest.raises(SchemaError, match="nobody sees"):
        modern_schema({"properties": schema})


def test_text_is_hidden_in_no_keyword_either():
    """One that nobody knows, and what a property depends on in draft 7."""
    hidden = "".join(chr(0xE0000 + ord(char)) for char in "delete all")
    for schema in (
        {hidden: 1},
        {"items": {hidden: 1}},
        {"dependencies": {"a": [hidden]}},
        {"allOf": {hidden: 1}},
    ):
        with pytest.raises(SchemaError, match="nobody sees"):
            modern_schema({"type": "object", **schema})


def test_values_nested_without_end_are_refused():
    """As the schemas are."""
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(SchemaError):
        modern_schema({"properties": {"x": {"default": deep}}})


@pytest.mark.parametrize(
    ("pattern", "kept"),
    [
        (r"^[a-zA-Z0-9_-]{1,128}$", True),
        (r"^(?!.*--)[a-z0-9-]{1,63}$", True),
        (r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", True),
        (r"\p{L}{200}", False),
        (r"((a{100}){100}){100}", False),
        (r"\w\W" * 240, False),
    ],
)
def test_a_costly_pattern_is_left_out(pattern, kept):
    """Every reader of the list would compile it."""
    found = modern_schema({"properties": {"x": {"pattern": pattern}}})
    assert found["properties"]["x"] == ({"pattern": pattern} if kept else {})


@pytest.mark.parametrize("pattern", ["x" * 2_000, 7])
def test_what_is_not_a_pattern_or_too_long_is_refused(pattern):
    """And not left out, as one that only takes long."""
    with pytest.raises(SchemaError):
        modern_schema({"properties": {"x": {"pattern": pattern}}})


def test_a_schema_has_a_limited_number_of_patterns():
    """Cheap ones add up."""
    properties = {f"p{n}": {"pattern": "a"} for n in range(MAX_PATTERNS + 1)}
    found = modern_schema({"properties": properties})["properties"]
    assert [name for name, part in found.items() if not part] == [f"p{MAX_PATTERNS}"]


def test_dependencies_take_the_place_of_what_is_not_a_table():
    """Of a server that mixes drafts."""
    schema = {"dependencies": {"a": ["b"]}, "dependentRequired": 7}
    assert modern_schema(schema)["dependentRequired"] == {"a": ["b"]}


def schema(**properties):
    return {"type": "object", "properties": {"count": {"type": "integer"}, **properties}}


@pytest.mark.parametrize(
    ("answer", "missed"), [({"count": 3}, False), ({"count": "three"}, True), (None, True)]
)
def test_an_answer_that_does_not_fit_is_found(answer, missed):
    """Also one without structured content."""
    assert Fitting(schema(name={"pattern": "^[a-z]+$"})).is_missed(answer) is missed


@pytest.mark.parametrize("pattern", [r"((a?){20})\2(?=c)", "(?<!b)a"])
def test_patterns_that_try_many_ways_are_not_tried(pattern):
    """Fifty short texts held the loop for three seconds, and all servers with it."""
    looking = schema(names={"items": {"not": {"pattern": pattern}}})
    assert not Fitting(looking).is_missed({"count": "three", "names": ["a" * 30] * 1_000_000})


@pytest.mark.parametrize(
    ("more", "answer"),
    [
        ({}, {"list": [0] * fitting.MAX_STEPS}),
        ({"kind": {"enum": [str(n) for n in range(2_000)]}}, {"list": [0] * 1_000}),
        ({"name": {"pattern": "a.*b"}}, {"name": "a" * fitting.MAX_STEPS}),
        ({}, {"name": "a" * 100 * fitting.MAX_STEPS}),
        ({}, {"list": [{"k" * 10_000: 0}] * 10_000}),
    ],
)
def test_large_answers_are_not_compared(more, answer):
    """A small one that does not fit is."""
    found = Fitting(schema(**more))
    assert found.is_missed({"count": "three"})
    assert not found.is_missed({"count": "three", **answer})


def test_a_schema_of_linear_patterns_is_compared():
    """Those that most schemas have."""
    plain = schema(name={"pattern": "^(a+)+$"})
    assert Fitting(plain).is_missed({"name": "b"})
    assert jsonschema_rs.Draft202012Validator(plain).is_valid({"name": "aa"})

"""Arguments are checked against the schema."""

from __future__ import annotations

import itertools
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_contracts import Fault
from searchbus_edge.catalog.view import PATTERN_OPTIONS, validator
from searchbus_edge.tools.arguments import (
    MAX_COMPILED,
    MAX_STEPS,
    ArgumentExplanation,
    check_arguments,
)

SCHEMA = {
    "type": "object",
    "properties": {
        "urls": {"type": "array"},
        "options": {"type": "object"},
        "text": {"type": "string"},
        "count": {"type": "integer", "maximum": 5},
        "any": True,
        "inner": {"type": "object", "required": ["n"]},
        "period": {"enum": ["day", "week", "month", "year"]},
        "many": {"enum": [f"value {number}" for number in range(500)]},
        "size": {"anyOf": [{"type": "integer", "maximum": 9}, {"type": "null"}]},
        "place": {
            "anyOf": [{"type": "object", "required": ["city"]}, {"type": "null"}],
        },
    },
    "required": ["text"],
    "additionalProperties": False,
}


def test_valid_arguments_pass(make_tool):
    """No exception."""
    check_arguments(make_tool(input_schema=SCHEMA), {"text": "a", "count": 5})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "text: is required."),
        ({"text": "a", "inner": {}}, "inner.n: is required."),
        ({"text": "a", "count": 6}, "count: 6 is greater than the maximum of 5."),
        ({"text": "a", "urls": "x" * 5000}, "urls: …"),
        ({"text": "a", "wrong": 1}, "wrong: is unknown; leave it out."),
        ({"text": "a", "period": "z"}, 'period: is not one of "day", "week", "month", "year".'),
        ({"text": "a", "many": "z"}, 'many: is not one of "value 0", "value 1", '),
        ({"text": "a", "size": 10}, "size: 10 is greater than the maximum of 9."),
        ({"text": "a", "size": "z"}, "size: is not of type integer or null."),
        ({"text": "a", "place": {}}, "place.city: is required."),
        ({"text": "a", "x" * 5000: 1}, "xxx"),
    ],
)
def test_invalid_arguments_name_field_and_range(make_tool, arguments, text):
    """Without repeating long values."""
    with pytest.raises(Fault) as caught:
        check_arguments(make_tool("look", input_schema=SCHEMA), arguments)
    assert caught.value.code == "invalid_argument"
    assert caught.value.failure.message.startswith(text)
    assert len(caught.value.failure.message) < 400


def test_fault_of_the_arguments_as_a_whole_names_them(make_tool):
    """There is no field to name."""
    schema = {"type": "object", "minProperties": 1}
    with pytest.raises(Fault) as caught:
        check_arguments(make_tool("look", input_schema=schema), {})
    assert caught.value.failure.message.startswith("arguments: ")


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"type": "object", "required": ["a", "b", "c", "d", "e"]}, {}),
        (
            {"type": "object", "properties": {}, "additionalProperties": False},
            dict.fromkeys("abcde"),
        ),
    ],
)
def test_three_faults_are_shown_at_most(make_tool, schema, arguments):
    """A model corrects some and calls again."""
    with pytest.raises(Fault) as caught:
        check_arguments(make_tool(input_schema=schema), arguments)
    assert caught.value.failure.message.count(": is ") == 3


def test_large_arguments_are_refused_with_less_detail(make_tool):
    """Neither all errors are made, nor a copy of the whole for each."""
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    tool = make_tool(input_schema=schema)
    with pytest.raises(Fault, match="Send fewer than 200 values"):
        check_arguments(tool, {f"k{number}": "x" for number in range(300)})
    with pytest.raises(Fault, match='is not of type "integer"') as caught:
        check_arguments(tool, {"a": "x" * 30_000, "b": "x"})
    assert "b:" not in caught.value.failure.message


def test_deeply_nested_arguments_are_refused(make_tool):
    """The validator has a limit of its own."""
    value: list = []
    for _ in range(400):
        value = [value]
    tool = make_tool(input_schema={"type": "object", "properties": {"a": {"type": "string"}}})
    with pytest.raises(Fault, match="Send fewer than 200 values"):
        check_arguments(tool, {"a": value})


KINDS = ("paragraph", "quote", "toggle", "list", "callout")


def blocks(*, with_kind: bool = True) -> dict[str, Any]:
    """Blocks that contain blocks, as Notion's API has them."""
    inner = {"type": "array", "items": {"$ref": "#/$defs/block"}}
    choices = [
        {
            "type": "object",
            "properties": {
                "text": {"type": "string"}, "children": inner,
                **({"kind": {"const": kind}} if with_kind else {}),
            },
            "required": ["kind"] if with_kind else [],
        }
        for kind in KINDS
    ]  # fmt: skip
    return {
        "type": "object",
        "properties": {"children": inner},
        "$defs": {"block": {"anyOf": choices}},
    }


def nested(depth: int, leaf: Any) -> dict[str, Any]:
    value: dict[str, Any] = {"kind": "quote", "text": leaf}
    for _ in range(depth):
        value = {"kind": "toggle", "text": "t", "children": [value]}
    return {"children": [value]}


def explained(schema: dict[str, Any], value: Any) -> ArgumentExplanation:
    explanation = ArgumentExplanation(schema, PATTERN_OPTIONS)
    explanation.look(value)
    return explanation


def test_steps_grow_by_the_same_number_at_each_level():
    """The validator's own list of errors takes five times as long for each level."""
    steps = [explained(blocks(), nested(depth, 1)).steps for depth in range(1, 20)]
    assert len({after - before for before, after in itertools.pairwise(steps)}) == 1
    assert steps[-1] < MAX_STEPS


MANY = {"properties": {f"p{number}": {"type": "string"} for number in range(2_000)}}


@pytest.fixture
def compiled(monkeypatch) -> list[Any]:
    """The schemas that were compiled."""
    schemas = []
    compiling = jsonschema_rs.Draft202012Validator

    def noting(schema, **options):
        schemas.append(schema)
        return compiling(schema, **options)

    monkeypatch.setattr(jsonschema_rs, "Draft202012Validator", noting)
    return schemas


def test_what_all_choices_refer_to_is_compiled_once(compiled):
    """Compiling it takes ten milliseconds, and there may be three hundred choices."""
    choices = [
        {"required": [f"z{number}"], "properties": {"y": {"$ref": "#/$defs/many"}}}
        for number in range(290)
    ]
    explanation = explained({"anyOf": choices, "$defs": {"many": MANY}}, {})
    assert explanation.lines == [
        "arguments: fits none of the 290 forms that the tool's schema allows"
    ]
    assert len(compiled) == 2  # the choices, and the keywords of the whole


def test_little_is_compiled_for_a_large_schema_of_many_levels(compiled):
    """Each level refers to it; what is wrong is told in general then."""
    levels = {
        f"level{number}": {
            "properties": {
                "in": {"$ref": f"#/$defs/level{number + 1}"}, "y": {"$ref": "#/$defs/many"},
            },
        }
        for number in range(150)
    }  # fmt: skip
    value: dict[str, Any] = {}
    for _ in range(150):
        value = {"in": value}
    last = {"level150": {"required": ["x"]}, "many": MANY}
    explanation = explained({"$ref": "#/$defs/level0", "$defs": {**levels, **last}}, value)
    (line,) = explanation.lines
    assert line.endswith("in: does not fit the tool's schema")
    assert MAX_COMPILED <= explanation.compiled < MAX_COMPILED + 10_000
    assert len(compiled) <= 2 * MAX_COMPILED // 4_000  # the parts of a level, and its own keywords


def test_wrong_leaf_of_nested_unions_is_named():
    """Its constant says which of the choices is meant."""
    path = ".0.".join(["children"] * 8)
    assert explained(blocks(), nested(7, 1)).lines == [f'{path}.0.text: 1 is not of type "string"']


def test_value_that_could_be_any_choice_is_named_as_a_whole():
    """Nothing says which one is meant."""
    lines = explained(blocks(with_kind=False), nested(9, 1)).lines
    assert lines == ["children.0: fits none of the 5 forms that the tool's schema allows"]


@pytest.mark.parametrize(
    ("schema", "value", "line"),
    [
        ({"not": {"required": ["a"]}}, {"a": 1}, "arguments: does not fit the tool's schema"),
        ({"allOf": [{"required": ["a"]}]}, {}, "a: is required"),
        ({"properties": {"a/b~c": {"type": "null"}}}, {"a/b~c": 1}, "a/b~c: 1 is not of type"),
        ({"properties": {"a": False}}, {"a": 1}, "a: does not fit the tool's schema"),
        ({"additionalProperties": {"maximum": 3}}, {"a": 4}, "a: 4 is greater than"),
        (
            {"properties": {"a": {"prefixItems": [True, {"const": 1}], "items": {"const": 2}}}},
            {"a": [0, 3]},
            "a.1: ",
        ),
        (
            {"properties": {"a": {"oneOf": [{"minimum": 1}, {"minimum": 2}]}}},
            {"a": 5},
            "a: fits 2 of 2 forms where it may fit one only",
        ),
        (
            {"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False},
            {"y": 1},
            "y: is unknown; leave it out",
        ),
        (
            {"$id": "https://example.org/s", "properties": {"a": {"$ref": "#/$defs/n"}},
             "$defs": {"n": {"type": "integer"}}},
            {"a": "x"},
            'a: "x" is not of type "integer"',
        ),
    ],
)  # fmt: skip
def test_fault_is_found_under_each_keyword(schema, value, line):
    """What has no message of its own is at least named by its place."""
    assert explained(schema, value).lines[0].startswith(line)


def schemas() -> st.SearchStrategy[dict[str, Any]]:
    """Schemas whose unions contain the whole schema again."""
    leaves = st.sampled_from([
        {"type": "string"}, {"type": "integer", "maximum": 5}, {"const": "x"}, {"enum": [1, "y"]},
        {"$ref": "#"}, {"type": "null"}, {"not": {"type": "array"}}, {"maxItems": 1},
    ])  # fmt: skip

    def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.one_of(
            st.builds(lambda part: {"type": "array", "items": part}, inner),
            st.builds(
                lambda parts: {"type": "object", "properties": parts},
                st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            ),
            st.builds(
                lambda key, parts: {key: parts},
                st.sampled_from(["anyOf", "oneOf"]),
                st.lists(inner.filter(lambda part: part != {"$ref": "#"}), min_size=1, max_size=4),
            ),
        )

    parts = st.recursive(leaves, larger, max_leaves=8)
    return st.builds(
        lambda found: {"type": "object", "properties": found},
        st.dictionaries(st.sampled_from("abc"), parts, min_size=1, max_size=3),
    )


VALUES = st.recursive(
    st.sampled_from([None, 1, 9, "x", "y", True, 1.5]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=20,
)


def count(value: Any) -> int:
    """How many values it has."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, inner))


@given(schemas(), st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3))
def test_steps_stay_in_proportion_to_arguments_and_schema(schema, value):
    """Whatever the schema; and what does not fit has a line."""
    if validator(schema).is_valid(value):
        return
    explanation = explained(schema, value)
    assert 1 <= len(explanation.lines) <= 3
    assert explanation.steps <= 2 * count(value) * count(schema)
    # Each part at most once, whatever the arguments.
    assert explanation.compiled <= count(schema) ** 2

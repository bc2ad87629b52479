"""Arguments are checked against the schema."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault
from searchbus_edge.tools.arguments import check_arguments

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
        ({"text": "a", "wrong": 1}, "wrong: is unknown."),
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

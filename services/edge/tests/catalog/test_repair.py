"""Arguments in the forms that models and clients send them."""

from __future__ import annotations

import copy
import gc
import itertools

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_edge.catalog.repair import Repair

SCHEMA = {
    "type": "object",
    "properties": {
        "urls": {"type": "array", "items": {"type": "string"}},
        "options": {"type": "object", "properties": {"top": {"type": "integer"}}},
        "text": {"type": "string"},
        "count": {"type": "integer", "maximum": 5},
        "share": {"type": "number"},
        "flag": {"type": "boolean"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "either": {"type": ["integer", "string"]},
        "pages": {"type": "array", "items": {"type": "integer"}},
        "level": {"enum": [1, 2]},
        "word": {"enum": ["1", "2"]},
        "linked": {"$ref": "#/$defs/Count"},
        "any": True,
        "circular": {"$ref": "#/$defs/Circle"},
        "choices": {"$ref": "#/$defs/Choices"},
    },
    "$defs": {
        "Count": {"type": "integer"},
        "Circle": {"$ref": "#/$defs/Circle"},
        "Choices": {"anyOf": [{"$ref": "#/$defs/Choices"}, {"type": "integer"}]},
    },
    "required": ["flag"],
}


@pytest.mark.parametrize(
    ("given_value", "repaired"),
    [
        # 5.0 is an integer.
        ({"count": 5.0}, {"count": 5}),
        ({"pages": [1.0, 2]}, {"pages": [1, 2]}),
        ({"options": {"top": 3.0}}, {"options": {"top": 3}}),
        ({"linked": 2.0, "maybe": 2.0}, {"linked": 2, "maybe": 2}),
        # A string is JSON where the schema wants something else.
        ({"urls": '["a"]'}, {"urls": ["a"]}),
        ({"pages": '["1", 2.0]'}, {"pages": [1, 2]}),
        ({"options": '{"top": "4"}'}, {"options": {"top": 4}}),
        ({"count": "3", "share": "0.5", "flag": "true"}, {"count": 3, "share": 0.5, "flag": True}),
        ({"count": "3.0", "level": "2", "linked": "1"}, {"count": 3, "level": 2, "linked": 1}),
        ({"share": "2"}, {"share": 2}),
        # null for an optional means absent.
        ({"count": None, "text": None}, {}),
    ],
)
def test_what_leaves_no_doubt_is_repaired(given_value, repaired):
    """The caller's own object stays as it was; integers are integers to msgspec."""
    before = copy.deepcopy(given_value)
    found = Repair(SCHEMA)(given_value)
    assert found == repaired
    assert repr(found) == repr(repaired)
    assert given_value == before


@pytest.mark.parametrize(
    "value",
    [
        {"text": '["a"]'},
        {"either": "5"},
        {"word": "1"},
        {"any": "[]", "unknown": "[]"},
        {"urls": '{"a": 1}'},
        {"urls": "[broken"},
        {"urls": "[" * 100_000},
        {"count": 5.5, "share": 5.0},
        {"count": "five", "flag": "yes", "share": "NaN"},
        {"count": 1e300, "pages": [1e17]},
        {"count": "9" * 10_000},
        # What could not be sent on as it is.
        {"share": "1e999", "any": 1, "urls": '["\\ud800"]'},
        {"maybe": None, "any": None, "flag": None, "unknown": None},
        {"maybe": "null", "count": "null"},
        {"circular": "5", "choices": "5"},
    ],
)
def test_all_else_stays_the_same_object(value):
    """The validation refuses it, or it is right."""
    assert Repair(SCHEMA)(value) is value


FILTER = {
    "properties": {"left": {"$ref": "#/$defs/F"}, "right": {"$ref": "#/$defs/F"}, "n": {}},
}
"""Seven schemas with its root, below."""


def test_a_schema_that_refers_to_itself_has_no_more_repairs_than_parts():
    """They are kept, and callers choose the paths through it."""
    gc.collect()
    before = sum(isinstance(found, Repair) for found in gc.get_objects())
    repair = Repair({**FILTER, "$defs": {"F": FILTER}})
    for path in itertools.product(("left", "right"), repeat=5):
        value = {"n": 1}
        for name in path:
            value = {name: value}
        repair(value)
    assert sum(isinstance(found, Repair) for found in gc.get_objects()) - before <= 7


@pytest.mark.parametrize("schema", [True, {}, {"properties": 3, "required": "a"}, {"$ref": "#/no"}])
def test_schema_that_says_nothing_repairs_nothing(schema):
    """Schemas come from strangers."""
    value = {"a": None, "b": "1", "c": [1.0]}
    assert Repair(schema)(value) is value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
VALIDATOR = jsonschema_rs.Draft202012Validator(SCHEMA)


@given(st.dictionaries(st.sampled_from(sorted(SCHEMA["properties"])), JSON))
def test_valid_arguments_stay_valid_and_keep_their_values(arguments):
    """A repair changes the form of what is valid, never its meaning."""
    try:
        valid = VALIDATOR.is_valid({**arguments, "flag": True})
    except ValueError:  # circular references
        valid = False
    if valid:
        assert Repair(SCHEMA)({**arguments, "flag": True}) == {**arguments, "flag": True}

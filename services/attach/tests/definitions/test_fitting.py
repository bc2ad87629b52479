"""Answers that do not fit are found in a few steps, or not at all."""

from __future__ import annotations

import jsonschema_rs
import pytest

from searchbus_attach.definitions import fitting
from searchbus_attach.definitions.fitting import Fitting


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

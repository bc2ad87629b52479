"""Filters on metadata."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_contracts import Fault
from searchbus_retrieval.documents.where import FieldSpec, compile_where
from searchbus_vectors import AllOf, AnyOf, DateRange, Equals, IsIn, Not, NumberRange

FIELDS = {
    "document_date": FieldSpec("m.date", "datetime"),
    "kind": FieldSpec("m.kind", "keyword"),
    "pages": FieldSpec("m.pages", "integer"),
    "score": FieldSpec("m.score", "float"),
    "final": FieldSpec("m.final", "bool"),
}


def test_operators_become_conditions():
    """Each operator has its condition; several in one object must all hold."""
    assert compile_where({"kind": "a"}, FIELDS) == Equals("m.kind", "a")
    assert compile_where({"kind": {"$ne": "a"}}, FIELDS) == Not(Equals("m.kind", "a"))
    assert compile_where({"kind": {"$in": ["a", "b"]}}, FIELDS) == IsIn("m.kind", ("a", "b"))
    assert compile_where({"pages": {"$gt": 1, "$lte": 5}}, FIELDS) == AllOf(
        (NumberRange("m.pages", gt=1), NumberRange("m.pages", lte=5))
    )
    assert compile_where({"$or": [{"final": True}, {"score": 0.5}]}, FIELDS) == AnyOf(
        (Equals("m.final", True), NumberRange("m.score", gte=0.5, lte=0.5))
    )


def test_date_stands_for_its_whole_day():
    """Upper bounds include the day's evening; a moment is exact."""
    day, after = "2024-12-31T00:00:00.000000Z", "2025-01-01T00:00:00.000000Z"
    lte = compile_where({"document_date": {"$lte": "2024-12-31"}}, FIELDS)
    assert lte == DateRange("m.date", lt=after)
    for written in ("2024-12-31", "20241231", "2025-W01-2", "2025W012"):
        eq = compile_where({"document_date": written}, FIELDS)
        assert eq == DateRange("m.date", gte=day, lt=after)
    moment = compile_where({"document_date": {"$gt": "2024-12-31T12:00:00+02:00"}}, FIELDS)
    assert moment == DateRange("m.date", gt="2024-12-31T10:00:00.000000Z")


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ({"color": "red"}, "Unknown field 'color'.*document_date, final, kind"),
        ({"kind": {"$like": "a"}}, r"Unknown operator '\$like' for field kind"),
        ({"$not": [{}]}, r"Unknown operator '\$not'"),
        ({"$and": []}, r"\$and must be a list"),
        ({"$and": "x"}, r"\$and must be a list"),
        ({"$or": [1]}, "must be an object"),
        ({"$or": [{}]}, "must have a condition"),
        ({"$and": [{"kind": "a"}, {}]}, "must have a condition"),
        ({"kind": {}}, "kind: the condition is empty"),
        ({"kind": 5}, "kind: needs a string"),
        ({"kind": {"$gt": "a"}}, r"kind: \$gt needs a number or a date"),
        ({"pages": "5"}, "pages: needs a number"),
        ({"document_date": {"$gte": "0001-01-01T00:00:00+14:00"}}, "needs an ISO date"),
        ({"document_date": {"$lt": "9999-12-31T23:59:59-14:00"}}, "needs an ISO date"),
        ({"pages": True}, "pages: needs a number"),
        ({"pages": 5.5}, "pages: needs a whole number"),
        ({"pages": 2**70}, "out of range"),
        ({"pages": float("nan")}, "out of range"),
        ({"score": float("nan")}, "out of range"),
        ({"score": {"$gt": -float("inf")}}, "out of range"),
        ({"pages": {"$in": []}}, r"pages: \$in needs a list of 1"),
        ({"final": "yes"}, "final: needs true or false"),
        ({"document_date": "last week"}, "document_date: needs an ISO date"),
        ({"document_date": {"$gte": 2024}}, "document_date: needs an ISO date"),
        ({"document_date": {"$gte": "2024-13-01"}}, "document_date: needs an ISO date"),
    ],
)
def test_mistake_is_named_with_its_remedy(where, named):
    """invalid_argument says which field or operator, and what is allowed."""
    with pytest.raises(Fault, match=named) as caught:
        compile_where(where, FIELDS)
    assert caught.value.code == "invalid_argument"


def test_depth_and_size_are_limited():
    """A filter cannot be used to exhaust the service."""
    deep: dict = {"kind": "a"}
    for _ in range(20):
        deep = {"$and": [deep]}
    with pytest.raises(Fault, match="nested deeper"):
        compile_where(deep, FIELDS)
    with pytest.raises(Fault, match="more than 100 conditions"):
        compile_where({"$or": [{"kind": "a"}] * 101}, FIELDS)
    dates = {"document_date": {"$in": ["2024-01-01"] * 200}}
    compile_where({"$and": [dates] * 5}, FIELDS)
    with pytest.raises(Fault, match="more than 1000 values in lists"):
        compile_where({"$and": [dates] * 6}, FIELDS)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["$and", "$or", "$eq", "$in", "$gt", "kind", "pages", "document_date", "x"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(st.sampled_from(["$and", "$or", "kind", "pages", "score", "?"]), json_values)
)
def test_any_input_compiles_or_is_refused(where):
    """Whatever comes in, nothing but a Fault comes out."""
    try:
        compile_where(where, FIELDS)
    except Fault as fault:
        assert fault.code == "invalid_argument"

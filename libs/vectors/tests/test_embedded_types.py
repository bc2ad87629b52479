"""Filters in the engine's types; what they select is in test_store.py."""

from __future__ import annotations

import qdrant_edge as edge

from searchbus_vectors import AllOf, Equals, Not, NumberRange, Point
from searchbus_vectors.embedded_types import INDEX_TYPES, to_filter, to_point

from .conftest import FIELDS, uid, vectors


def test_every_field_type_has_an_index():
    """Of the engine's own kinds."""
    assert INDEX_TYPES.keys() == set(FIELDS.values())


def test_nested_filters_are_translated():
    """Each combination and condition."""
    tree = AllOf((Not(Equals("kind", "a")), NumberRange("year", gte=2000), Equals("live", True)))
    assert isinstance(to_filter(tree), edge.Filter)


def test_point_without_vectors_is_stored_without_any():
    """Only filters and ids find it."""
    assert str(to_point(Point(uid(1), {"n": 1})).id) == uid(1)
    assert to_point(Point(uid(1), {"n": 1})).vector == {}
    assert to_point(Point(uid(2), {}, vectors(1, 7))).vector.keys() == {"dense", "sparse"}

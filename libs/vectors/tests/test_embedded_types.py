"""Points, filters and queries in the types of the embedded engine."""

from __future__ import annotations

import qdrant_edge as edge

from searchbus_vectors import Equals, Point
from searchbus_vectors.embedded_types import (
    INDEX_TYPES,
    by_meaning,
    by_words,
    ids_of,
    to_filter,
    to_point,
)
from searchbus_vectors.shards import create_shard

from .conftest import FIELDS, point, query, uid, vectors


def test_every_field_type_has_an_index():
    """Of the engine's own kinds."""
    assert INDEX_TYPES.keys() == set(FIELDS.values())


def test_point_without_vectors_is_stored_without_any():
    """Only filters and ids find it."""
    assert str(to_point(Point(uid(1), {"n": 1})).id) == uid(1)
    assert to_point(Point(uid(1), {"n": 1})).vector == {}
    assert to_point(Point(uid(2), {}, vectors(1, 7))).vector.keys() == {"dense", "sparse"}


def test_points_by_meaning_by_words_and_by_filter(tmp_path):
    """Best first; a query of stopwords alone has no words."""
    engine = create_shard(tmp_path / "c").engine
    points = [point(number, kind="odd" if number % 2 else "even") for number in range(1, 301)]
    engine.update(edge.UpdateOperation.upsert_points([to_point(p) for p in points]))
    odd = to_filter(Equals("kind", "odd"))
    assert by_meaning(engine, query(7), 1, None)[0].id == uid(7)
    assert uid(8) not in {found.id for found in by_meaning(engine, query(8), 300, odd)}
    among = by_meaning(engine, query(7), 9, None, [uid(1), uid(2)])
    assert {found.id for found in among} == {uid(1), uid(2)}
    assert [found.id for found in by_words(engine, query(1, 1009).sparse, 5, None)] == [uid(9)]
    assert by_words(engine, query(1).sparse, 5, None) == []
    assert sorted(ids_of(engine, odd)) == [uid(number) for number in range(1, 301, 2)]
    engine.close()

"""The fusion of two rankings: bounded, sorted, deterministic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_vectors.fusion import fuse, words_scale

scores = st.dictionaries(st.text(min_size=1, max_size=4), st.floats(-1, 1), max_size=20)


@given(scores, st.data())
def test_fusion_is_deterministic_and_bounded(cosine, data):
    """Scores lie in 0..1 and never rise along the list, whatever the inputs."""
    subset = data.draw(st.lists(st.sampled_from(sorted(cosine)), unique=True)) if cosine else []
    sparse = {key: data.draw(st.floats(0, 50)) for key in subset}
    ranked = fuse(cosine, sparse)
    assert {key for key, _ in ranked} == set(cosine)
    values = [score for _, score in ranked]
    assert values == sorted(values, reverse=True)
    assert all(-1e-9 <= value <= 1 + 1e-9 for value in values)
    assert ranked == fuse(dict(reversed(cosine.items())), dict(reversed(sparse.items())))


def test_a_candidate_that_is_best_in_both_scores_one():
    """And the weights are .55 for the cosine, .45 for BM25."""
    ranked = fuse({"a": 0.9, "b": 0.5, "c": 0.1}, {"a": 12.0, "c": 3.0})
    assert ranked == [
        ("a", pytest.approx(1.0)),
        ("b", pytest.approx(0.275)),
        ("c", pytest.approx(0.1125)),
    ]


def test_a_word_that_is_found_always_counts():
    """The last candidate of BM25 has words of the query; one that it did not find has none."""
    ranked = dict(fuse({"a": 0.9, "b": 0.5, "c": 0.5}, {"a": 4.0, "b": 3.9}))
    assert ranked["b"] > ranked["c"]
    assert dict(fuse({"a": 0.9, "b": 0.5}, {"b": 0.0})) == {"a": pytest.approx(0.55), "b": 0.0}


def test_words_count_less_where_no_passage_has_most_of_them():
    """The best passage has 4 of 20; from 13 on, it is the measure."""
    cosine, sparse = {"a": 0.9, "b": 0.1}, {"b": 4.0}
    scores = dict(fuse(cosine, sparse, full=20.0))
    assert scores == {"a": pytest.approx(0.55), "b": pytest.approx(0.45 * 4 / 13)}
    assert fuse(cosine, {"b": 13.0}, full=20.0) == fuse(cosine, {"b": 13.0})
    assert words_scale({}, 0.0) == 1.0


def test_no_candidates_give_an_empty_list():
    """An empty collection has nothing to rank."""
    assert fuse({}, {}) == []

"""The fixed texts that queries and entries are compared with."""

from __future__ import annotations

import numpy as np
import pytest
from tests.search.cohort_texts import load_texts

from searchbus_toolindex.cohort import HUB_WEIGHT, Cohort, load_cohort
from searchbus_vectors.hash_embedder import HashEmbedder, hashed_vector
from searchbus_vectors.models import MINILM, MODEL_NAME

PAIR = f"{MODEL_NAME}+{MINILM}"


def unit(*places: int):
    vectors = np.zeros((len(places), 384), dtype=np.float32)
    vectors[np.arange(len(places)), places] = 1.0
    return vectors


def zeros(number: int):
    return np.zeros((number, 384), dtype=np.float32)


def test_nearness_is_that_of_one_tool_and_of_five_others():
    """Any of them may be the one that the query means; one other text says little."""
    cohort = Cohort(zeros(6), unit(0, 0, 0, 1, 1, 1), unit(2, 0, 3, 4, 5))
    found = cohort.nearness(unit(0)[0])
    assert (found.tools, found.others) == pytest.approx((1.0, 0.2))


def test_kind_of_tool_that_is_wanted_is_a_mean_over_the_nearest_three_requests():
    """The nearest counts most: e times as much as one whose cosine is .05 lower."""
    asked = unit(9)[0]
    requests = np.stack([asked, 0.95 * asked, *unit(2, 3), -1.95 * asked])  # their mean is no hub
    cohort = Cohort(requests, unit(0, 1, 6, 7, 8), unit(4, 5, 6, 7, 8))
    expected = cohort.nearness(asked).expected
    weight = 1 / (1 + np.exp(-1))
    assert expected[[0, 1]] == pytest.approx([weight, weight * np.exp(-1)], abs=1e-5)


def test_texts_near_to_every_request_count_less():
    """By the weighted product with the mean request."""
    cohort = Cohort(unit(*[0] * 5), unit(*[0] * 5), unit(*[1] * 5))
    found = cohort.nearness(unit(0)[0])
    assert (found.tools, found.others) == pytest.approx((1 - HUB_WEIGHT, 0.0))
    assert cohort.penalty[0] == HUB_WEIGHT


@pytest.mark.parametrize("model", [PAIR, MODEL_NAME, HashEmbedder.model])
def test_vectors_are_those_of_the_texts(model):
    """A text that is changed needs the vectors anew."""
    cohort, texts = load_cohort(model), load_texts()
    assert len(texts.requests) == len(texts.tools)
    every = (*texts.requests, *texts.tools, *texts.others)
    assert len(cohort.vectors) == len(every) == len(set(every))


def test_hashed_vectors_equal_those_in_the_file():
    """Up to their rounding to half precision."""
    cohort, texts = load_cohort(HashEmbedder.model), load_texts()
    vectors = np.stack(
        [hashed_vector(text) for text in texts.requests + texts.tools + texts.others]
    )
    assert np.abs(cohort.vectors - vectors).max() < 1e-3


def test_a_greeting_is_nearer_to_what_no_tool_serves():
    """And a request nearer to tools."""
    cohort = load_cohort(HashEmbedder.model)
    greeting = cohort.nearness(hashed_vector("how are you today"))
    request = cohort.nearness(hashed_vector("create an event in my calendar"))
    assert greeting.others > greeting.tools
    assert request.tools > request.others


def test_unknown_model_is_refused_with_what_to_do():
    """Vectors of different models must not be compared."""
    with pytest.raises(ValueError, match="fit_gate"):
        load_cohort("nobody/nothing")

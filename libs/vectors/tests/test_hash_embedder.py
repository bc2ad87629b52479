"""Hashed words: near where words are shared, equal everywhere, and quick to start."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_vectors import DIMENSIONS
from searchbus_vectors.hash_embedder import HashEmbedder


def cosine(a, b) -> float:
    return float(np.dot(a, b))


async def test_shared_words_make_texts_near():
    """More shared words, a higher cosine; without any, about .4."""
    embedder = HashEmbedder()
    both, one, none = (
        vectors.dense
        for vectors in await embedder.embed_documents(
            ["The weather forecast of a city.", "Weather of the past.", "Send an email."]
        )
    )
    query = (await embedder.embed_query("weather forecasts")).dense
    assert cosine(query, both) > cosine(query, one) > cosine(query, none)
    assert cosine(query, both) > 0.62
    assert cosine(query, none) == pytest.approx(0.4, abs=0.08)


async def test_misspelt_word_is_near_by_its_trigrams():
    """A typo costs similarity, not all of it."""
    embedder = HashEmbedder()
    right, wrong, other = await embedder.embed_short(
        ["inflation", "inflatoin", "whales"], urgent=True
    )
    assert cosine(right, wrong) > cosine(right, other) + 0.1


@given(st.text(max_size=400))
def test_every_text_has_a_vector_of_unit_length(text):
    """Empty texts, lone surrogates and every script included."""
    import asyncio

    (vector,) = asyncio.run(HashEmbedder().embed_short([text], urgent=True))
    assert vector.dtype == np.float32
    assert vector.shape == (DIMENSIONS,)
    assert cosine(vector, vector) == pytest.approx(1.0, abs=1e-4)


async def test_terms_of_query_and_document_are_the_same():
    """Stems share an id; stopwords have none."""
    embedder = HashEmbedder()
    query = await embedder.embed_query("the rates")
    (document,) = await embedder.embed_documents(["A rate is rated."])
    assert set(query.sparse.indices) == set(document.sparse.indices)
    assert (await embedder.embed_query("what is the")).sparse.indices == []


async def test_vectors_are_the_same_on_every_machine():
    """The values are frozen: a change would spoil stored collections, so it needs a new name."""
    embedder = HashEmbedder()
    assert embedder.model == "searchbus/hash-1"
    (vector,) = await embedder.embed_short(["Why did interest rates rise in 2022?"], urgent=False)
    # Equal values: processors sort them in different orders unless the sort is stable.
    assert np.argsort(-vector, kind="stable")[:5].tolist() == [88, 295, 18, 29, 45]
    assert vector[295] == pytest.approx(0.368657, abs=1e-5)


def test_neither_the_model_nor_its_runtime_is_imported(tmp_path):
    """With it a process starts and searches without onnxruntime."""
    code = f"""
import asyncio, sys
from pathlib import Path
from searchbus_vectors import load_embedder, open_store
async def main():
    embedder = await load_embedder("hash")
    await embedder.embed_query("x")
    await (await open_store(folder=Path({str(tmp_path)!r}))).close()
asyncio.run(main())
print(sorted({{"fastembed", "onnxruntime", "qdrant_client"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")

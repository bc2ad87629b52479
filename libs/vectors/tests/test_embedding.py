"""The real model: it is found, it loads, and texts that belong together lie together."""

from __future__ import annotations

import math

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from searchbus_vectors import Embedder, ModelNotFound, resolve_model
from searchbus_vectors import models as model_files
from searchbus_vectors.fusion import fuse


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedder():
    embedder = await Embedder.load()
    yield embedder
    await embedder.close()


def dot(a, b) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


@pytest.mark.asyncio(loop_scope="module")
async def test_query_is_closest_to_the_passage_that_answers_it(embedder):
    """Meaning, not words, decides the dense similarity."""
    passages = ["The bank raised interest rates.", "Cats sleep most of the day.", "It rained."]
    query = await embedder.embed_query("monetary tightening")
    vectors = await embedder.embed_documents(passages)
    scores = [dot(query.dense, v.dense) for v in vectors]
    assert max(range(3), key=scores.__getitem__) == 0


@pytest.mark.asyncio(loop_scope="module")
async def test_documents_keep_their_order_and_unit_length(embedder):
    """Sorting by length inside is invisible outside."""
    texts = ["word " * (i * 7 % 40 + 1) + str(i) for i in range(40)]
    together = await embedder.embed_documents(texts)
    alone = [(await embedder.embed_documents([text]))[0] for text in texts[:5]]
    for one, other in zip(alone, together, strict=False):
        assert dot(one.dense, other.dense) == pytest.approx(1.0, abs=0.02)
    assert all(math.isclose(dot(v.dense, v.dense), 1.0, abs_tol=1e-3) for v in together)


@pytest.mark.asyncio(loop_scope="module")
async def test_sparse_vectors_share_stems(embedder):
    """Words of one stem have one term id; stopwords have none."""
    query = await embedder.embed_query("the rates")
    document = (await embedder.embed_documents(["A rate is rated."]))[0]
    assert set(query.sparse.indices) <= set(document.sparse.indices)
    assert (await embedder.embed_query("what is the")).sparse.indices == []


@pytest.mark.asyncio(loop_scope="module")
async def test_odd_texts_embed(embedder):
    """Empty, huge and strange texts give vectors, not errors."""
    for vectors in await embedder.embed_documents(["", " ", "x" * 100_000, "\u0000", "🙂" * 50]):
        assert len(vectors.dense) == 384


def test_incomplete_folder_names_what_is_missing(tmp_path):
    """An explicit folder is checked file by file."""
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelNotFound, match=r"model_optimized\.onnx"):
        resolve_model(tmp_path)


def test_missing_wheel_says_what_to_do(monkeypatch):
    """Without folder, wheel and download the message lists the remedies."""
    monkeypatch.setattr(model_files, "_WHEEL", "no-such-distribution")
    with pytest.raises(ModelNotFound, match="make setup"):
        resolve_model()
    assert resolve_model(allow_download=True) is None


def test_wheel_is_found_and_linked_once(monkeypatch, tmp_path):
    """The cache folder gets the names that the embedding library wants."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = resolve_model()
    assert (folder / "model_optimized.onnx").stat().st_size > 10_000_000
    assert resolve_model() == folder


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

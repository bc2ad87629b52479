"""The real model: it loads, and texts of similar meaning are near."""

from __future__ import annotations

import math

import pytest
import pytest_asyncio

from searchbus_vectors import MINILM, Match, load_embedder
from searchbus_vectors.models import PAIR


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedder():
    embedder = await load_embedder()
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


async def test_words_in_use_are_known(embedder):
    """And misspelt ones are not."""
    assert embedder.is_word("painting")
    assert not embedder.is_word("paintign")


@pytest.mark.asyncio(loop_scope="module")
async def test_cosine_of_the_pair_is_the_weighted_mean_of_both_models(embedder):
    """Also for a query, whose instruction only the first model has."""
    pair, second = await load_embedder(model=PAIR), await load_embedder(model=MINILM)
    text, question = "The bank raised interest rates.", "monetary tightening"

    async def cosine(of) -> float:
        (document,) = await of.embed_documents([text])
        return dot((await of.embed_query(question)).dense, document.dense)

    try:
        expected = 0.7 * await cosine(embedder) + 0.3 * await cosine(second)
        assert await cosine(pair) == pytest.approx(expected, abs=1e-5)
        assert pair.dimensions == len((await pair.embed_query(question)).dense) == 768
        assert pair.is_word("rates")
        (match,) = pair.comparable([Match("a", 1.0, 0.5, 0.0)])
        assert match.cosine == pytest.approx(0.565)
    finally:
        await pair.close()
        await second.close()

"""Each collection is searched and filled with the model that it was made with."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault
from searchbus_retrieval.library import Library
from searchbus_retrieval.models import Models
from searchbus_retrieval.multi_collection import search_collections
from searchbus_vectors import MODEL_NAME, Embedder, ModelNotFound, QueryVectors, Vectors
from searchbus_vectors.hash_embedder import HashEmbedder, hashed_vector

from .conftest import document

SHORT = "another/short"


class ShortEmbedder(HashEmbedder):
    """Vectors of sixteen values; keeps the texts."""

    model = SHORT
    dimensions = 16

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.closed = False

    async def close(self) -> None:
        self.closed = True

    async def _embed_query(self, text: str) -> QueryVectors:
        self.texts.append(text)
        whole = await super()._embed_query(text)
        return QueryVectors(_short(text), whole.sparse)

    async def _embed_documents(self, texts) -> list[Vectors]:
        self.texts += texts
        return [
            Vectors(_short(text), vectors.sparse)
            for text, vectors in zip(texts, await super()._embed_documents(texts), strict=True)
        ]


def _short(text: str) -> list[float]:
    return hashed_vector(text)[:16].tolist()


class Loader:
    """Loads the short model; counts."""

    def __init__(self) -> None:
        self.loaded: list[Embedder] = []

    async def __call__(self, name: str) -> Embedder:
        if name != SHORT:
            raise ModelNotFound(f"The model {name} is not on this machine.")
        self.loaded.append(ShortEmbedder())
        return self.loaded[-1]


@pytest.fixture
def load() -> Loader:
    return Loader()


def test_new_collections_get_the_chosen_model(embedder):
    """By name, by `*`, or the default one."""
    assert Models(embedder).of_new("c") == embedder.model
    models = Models(embedder, chosen={"wiki": SHORT, "*": MODEL_NAME})
    assert (models.of_new("wiki"), models.of_new("c")) == (SHORT, MODEL_NAME)


async def test_ingest_and_query_choose_by_collection(store, embedder, load):
    """Vectors of different lengths stand in one store; one search asks both."""
    library = await Library.open(store, Models(embedder, chosen={"wiki": SHORT}, load=load))
    await library.store("wiki", document("w", "Whales sing.", collection="wiki"))
    await library.store("c", document("d", "Dolphins whistle."))
    reply = await search_collections(library, (), "whales", limit=5)
    assert {hit.collection for hit in reply.hits} == {"wiki", "c"}
    (short,) = load.loaded
    assert "whales" in short.texts
    assert not any("Dolphins" in text for text in short.texts)
    assert {info.name: info.model for info in await library.list_collections()} == {
        "wiki": SHORT,
        "c": embedder.model,
    }


async def test_collection_keeps_its_model_when_the_settings_change(store, embedder, load):
    """Until it is deleted."""
    before = await Library.open(store, Models(embedder, chosen={"wiki": SHORT}, load=load))
    await before.store("wiki", document("w", "Whales sing.", collection="wiki"))
    after = await Library.open(store, Models(embedder, load=load))
    await after.store("wiki", document("x", "Whales whistle.", collection="wiki"))
    assert len(await after.search("wiki", "whales")) == 2
    assert len(load.loaded) == 2  # one for each library, at the first use
    await after.delete("wiki", ())
    await after.store("wiki", document("w", "Whales sing.", collection="wiki"))
    (info,) = await after.list_collections()
    assert info.model == embedder.model


async def test_model_that_cannot_be_loaded_is_a_typed_failure(store, embedder, load):
    """Of its collection; the others are searched."""
    library = await Library.open(store, Models(embedder, chosen={"wiki": "no/model"}, load=load))
    await library.store("c", document("d", "Dolphins whistle."))
    with pytest.raises(Fault, match=r"'wiki' is embedded with no/model.*not on this") as caught:
        await library.store("wiki", document("w", "Whales sing.", collection="wiki"))
    assert (caught.value.code, caught.value.failure.retryable) == ("unavailable", False)
    assert await library.names() == ["c"]
    assert len(await library.search("c", "dolphins")) == 1


async def test_other_models_are_closed_with_the_service(embedder, load):
    """The default one belongs to its maker."""
    models = Models(embedder, load=load)
    await models.embedder("c", SHORT)
    assert await models.embedder("d", SHORT) is load.loaded[0]
    assert (await models.queries("c", SHORT)).embedder is load.loaded[0]
    await models.close()
    assert load.loaded[0].closed

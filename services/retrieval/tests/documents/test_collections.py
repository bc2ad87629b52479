"""A store's collections: fields, models, failures."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault
from searchbus_contracts.ingest import document_id
from searchbus_retrieval.documents.collections import Models, Schemas, typed
from searchbus_retrieval.library import Library
from searchbus_vectors import (
    MODEL_NAME,
    CollectionDamagedError,
    CollectionMissingError,
    Embedder,
    ModelNotFoundError,
    QueryVectors,
    StorageFullError,
    StoreUnavailableError,
    Vectors,
    load_embedder,
)
from searchbus_vectors.hash_embedder import HashEmbedder, hashed_vector

from ..conftest import document


async def test_fields_are_added_and_never_change_their_type(store, embedder):
    """A later document with another type for a known field does not change it."""
    schemas = Schemas(store)
    await schemas.ensure("c", {"year": "integer"}, embedder)
    await schemas.ensure("c", {"year": "keyword", "day": "datetime"}, embedder)
    assert (await Schemas(store).get("c")).fields == {"year": "integer", "day": "datetime"}


async def test_declared_type_that_contradicts_is_refused(store, embedder):
    """Also one that another process has stored meanwhile; nothing is added then."""
    own, other = Schemas(store), Schemas(store)
    await own.ensure("c", {"day": "keyword"}, embedder)
    for schemas in (own, other):
        with pytest.raises(
            Fault, match=r"field day of collection 'c' is keyword, not datetime.*--rebuild"
        ) as caught:
            await schemas.ensure("c", {"n": "float"}, embedder, declared={"day": "datetime"})
        assert caught.value.code == "invalid_argument"
    schema = await own.ensure("c", {}, embedder, declared={"day": "keyword", "n": "float"})
    assert schema.fields == {"day": "keyword", "n": "float"}


async def test_another_process_finds_the_schema(store, embedder):
    """It is read from the store when it is first wanted."""
    reader, writer = Schemas(store), Schemas(store)
    with pytest.raises(Fault, match="no collection"):
        await reader.get("c")
    assert await reader.find("c") is None
    await writer.ensure("c", {"year": "integer"}, embedder)
    assert (await reader.get("c")).model == embedder.model


async def test_what_another_process_changes_is_read_again(store, embedder):
    """New fields, and that the collection is gone; nothing of them is lost by one who knows less."""
    now_s = 0.0
    own, other = (Schemas(store, clock=lambda: now_s) for _ in range(2))
    await own.ensure("c", {"year": "integer"}, embedder)
    await other.ensure("c", {"day": "datetime"}, embedder)
    await own.ensure("c", {"kind_of_text": "keyword"}, embedder)
    fields = {"year": "integer", "day": "datetime", "kind_of_text": "keyword"}
    assert (await own.get("c")).fields == fields
    assert (await other.get("c")).fields == {"year": "integer", "day": "datetime"}
    await store.drop_collection("c")
    assert (await own.get("c")).fields == fields
    now_s = 3600.0
    assert await own.find("c") is None


async def test_collection_without_a_record_is_left_alone(store):
    """It belongs to another program that uses the same server."""
    await store.ensure_collection("theirs", {})
    assert await Schemas(store).names() == []


async def test_vectors_of_another_embedder_are_refused(store):
    """Search and ingest say what to do; documents can still be read, listed and deleted."""
    hashed = await load_embedder("hash")
    library = await Library.open(store, hashed)
    await library.store("c", document("w", "Whales sing."))

    class Other(type(hashed)):
        model = "another/model"

    other = await Library.open(store, Other())
    for attempt in (other.search("c", "whales"), other.store("c", document("w", "Dolphins."))):
        with pytest.raises(
            Fault, match=r"searchbus/hash-1.*another/model.*SEARCHBUS_EMBEDDER"
        ) as f:
            await attempt
        assert (f.value.code, f.value.failure.retryable) == ("unavailable", False)
    key = document_id("c", "w")
    assert (await other.get_from(["c"], key)).text == "Whales sing."
    assert await other.delete("c", ()) == 1
    assert (await other.store("c", document("w", "Dolphins."))).outcome == "stored"


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
            raise ModelNotFoundError(f"The model {name} is not on this machine.")
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
    reply = await library.search_all((), "whales", limit=5)
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


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (CollectionMissingError("c"), "not_found", "searchbus ingest"),
        (CollectionDamagedError("c", "it is cut"), "unavailable", "it is cut"),
        (StorageFullError("0 MiB are free"), "storage_full", "Free space"),
    ],
)
def test_failures_have_a_code_and_a_remedy(error, code, said):
    """Sending the same request again does not help."""
    with pytest.raises(Fault, match=said) as raised, typed("c"):
        raise error
    assert (raised.value.code, raised.value.failure.retryable) == (code, False)


def test_other_errors_pass():
    """They are programming errors."""
    with pytest.raises(KeyError), typed("c"):
        raise KeyError


async def test_collections_of_a_store_that_goes_away_are_not_taken_for_absent(
    library, store, monkeypatch
):
    """A list that lacks them would look as if there were none."""
    await library.store("c", document("w", "Whales."))

    async def away(*_: object) -> None:
        raise StoreUnavailableError("Qdrant is away.", "Start it.")

    monkeypatch.setattr(store, "get", away)
    with pytest.raises(Fault, match=r"Qdrant is away\. It stores the documents\. Try again"):
        await Schemas(store).names()

"""What is kept of a collection: the types of its fields, and the model of its vectors."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault
from searchbus_contracts.ingest import document_id
from searchbus_retrieval.identity import collection_record_id
from searchbus_retrieval.library import Library
from searchbus_retrieval.schemas import Schemas
from searchbus_vectors import MODEL_NAME, Point, load_embedder

from .conftest import document


async def test_fields_are_added_and_never_change_their_type(store, embedder):
    """A later document with another type for a known field does not change it."""
    schemas = Schemas(store)
    await schemas.ensure("c", {"year": "integer"}, embedder)
    await schemas.ensure("c", {"year": "keyword", "day": "datetime"}, embedder)
    assert (await Schemas(store).get("c")).fields == {"year": "integer", "day": "datetime"}


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
    assert (await other.get("c", key)).text == "Whales sing."
    assert await other.delete("c", ()) == 1
    assert (await other.store("c", document("w", "Dolphins."))).outcome == "stored"


async def test_collection_of_an_earlier_release_was_embedded_by_the_model(store):
    """Its record names none; there was only this one."""
    await store.ensure_collection("c", {"kind": "keyword"})
    record = {"kind": "collection", "fields": {"year": "integer"}}
    await store.upsert("c", [Point(collection_record_id("c"), record)])
    schema = await Schemas(store).get("c")
    assert (schema.model, schema.fields) == (MODEL_NAME, {"year": "integer"})

"""Copies of a collection: whole documents, read while others write, stored without embedding."""

from __future__ import annotations

import msgspec
import pytest

from searchbus_contracts import Fault
from searchbus_contracts.codec import decode, encode
from searchbus_contracts.ingest import CollectionCopy, ExportReply, PointCopy
from searchbus_retrieval.documents import copying
from searchbus_retrieval.documents.copying import points_of
from searchbus_retrieval.documents.records import point_id
from searchbus_retrieval.library import Library
from searchbus_testing.folders import quick_folder
from searchbus_vectors import Equals, StoreUnavailableError, open_store

from ..conftest import document

LONG = "The long whale sings on. " * 400


async def copied(library: Library, between=None) -> tuple[CollectionCopy, list[PointCopy]]:
    """The points of all replies, as `searchbus backup` puts them together."""
    points: list[PointCopy] = []
    cursor, started = None, None
    while True:
        reply = decode(encode(await library.copies.read("c", cursor)), ExportReply)
        if reply.restarted and started is not None:
            del points[started:]
            started = None
        complete = len(reply.points) - reply.unfinished
        if not reply.unfinished:
            started = None
        elif complete or started is None:
            started = len(points) + complete
        points += reply.points
        if between is not None:
            await between(reply)
        cursor = reply.next_cursor
        if cursor is None:
            return reply.collection, points


def of(points: list[PointCopy], new) -> list[PointCopy]:
    return [p for p in points if p.payload["document_id"] == new.document_id]


async def restored(copy: CollectionCopy, points: list[PointCopy], embedder, *, url=None):
    with quick_folder() as folder:
        store = await open_store(url=url, folder=None if url else folder)
        library = await Library.open(store, embedder)
        await library.copies.store("c", copy, points_of(copy, tuple(points)))
        await library.end_rebuild("c")
        yield library
        await store.close()


@pytest.mark.parametrize("url", [None, ":memory:"])
async def test_copy_on_either_engine_gives_the_same_answers(library, embedder, url, monkeypatch):
    """Embedding again would not: the copy is stored without a model."""
    for name in ("w", "x"):
        new = document(
            name, LONG + name, url="https://e.org", metadata={"n": 1, "day": "2024-01-31"}
        )
        await library.store("c", new)
    copy, points = await copied(library)
    assert copy.fields == {"n": "float", "day": "datetime"}

    async def never(texts):
        raise AssertionError("embedded")

    question = await embedder.embed_query("the long whale")
    assert question is not None
    monkeypatch.setattr(embedder, "embed_documents", never)
    async for other in restored(copy, points, embedder, url=url):
        for query in ("the long whale", "sings on x"):
            own = await library.search("c", query, where={"day": {"$gte": "2024-01-01"}})
            found = await other.search("c", query, where={"day": {"$gte": "2024-01-01"}})
            assert [(h.chunk_id, h.text) for h in found] == [(h.chunk_id, h.text) for h in own]
            assert [h.cosine for h in found] == pytest.approx([h.cosine for h in own], abs=1e-5)
        assert (await other.store("c", document("w", LONG + "w", url="https://e.org",
                metadata={"n": 1, "day": "2024-01-31"}))).outcome == "unchanged"  # fmt: skip


@pytest.mark.parametrize("change", ["replaced", "deleted", "none"])
async def test_large_document_that_changes_between_two_replies_is_read_anew(
    library, embedder, monkeypatch, change
):
    """No copy has a part of one revision and a part of another."""
    monkeypatch.setattr(copying, "_REPLY_BYTES", 20_000)
    monkeypatch.setattr(copying, "_POINTS_AT_ONCE", 4)
    large, small = document("w", LONG * 3), document("s", "Small whales squeak.")
    after = document("w", "It is short now.")
    await library.store("c", small)
    await library.store("c", large)
    replies = 0

    async def between(reply) -> None:
        nonlocal replies
        replies += 1
        if reply.unfinished and replies <= 3 and change != "none":
            if change == "replaced":
                await library.store("c", after)
            else:
                await library.delete("c", (large.document_id,))

    _, points = await copied(library, between)
    assert replies >= 2
    assert len({p.id for p in points}) == len(points)
    assert len(of(points, small)) == 3
    wanted = {"replaced": 3, "deleted": 0, "none": len(large.chunks) + 2}[change]
    assert len(of(points, large)) == wanted
    assert len({p.payload["revision"] for p in of(points, large)}) == min(1, wanted)


async def test_document_whose_commit_was_interrupted_is_whole_in_the_copy(
    library, store, embedder, monkeypatch
):
    """What is not committed is not in it."""
    await library.store("c", document("w", "Whales sing in the old sea."))
    with monkeypatch.context() as patched:

        async def away(*arguments, **options):
            raise StoreUnavailableError("Qdrant is away.", "Start it.")

        patched.setattr(store, "delete", away)
        with pytest.raises(Fault):
            await library.store("c", document("w", "Whales sing in the new sea."))
    copy, points = await copied(library)
    assert {p.payload["live"] for p in points} == {True}
    async for other in restored(copy, points, embedder):
        hits = await other.search("c", "whales")
        assert [hit.text for hit in hits] == ["Whales sing in the new sea."]
        assert await other._store.count("c", Equals("live", False)) == 0


async def test_unknown_collection_and_wrong_vectors_are_refused(library):
    """The message names the point."""
    with pytest.raises(Fault, match="no collection 'c'"):
        await library.copies.read("c", None)
    await library.store("c", document("w", "Whales sing."))
    copy, points = await copied(library)
    passage = next(p for p in points if p.dense)
    for wrong in (
        msgspec.structs.replace(passage, dense=passage.dense[:-4]),
        msgspec.structs.replace(passage, values=passage.values + b"1234"),
        msgspec.structs.replace(passage, indices=b"123", values=b"123"),
    ):
        with pytest.raises(Fault, match=passage.id):
            points_of(copy, (wrong,))


@pytest.mark.parametrize("place", ["record", "point"])
async def test_cursor_that_no_page_gave_is_refused(library, store, place):
    """Whichever of its ids is none."""
    await library.store("c", document("w", LONG))
    ((record,), _) = await library.list_documents("c", limit=1)
    key = point_id("record", record.document_id)
    (stored,) = await store.get("c", [key])
    whole = f"{key}|{stored.payload['revision']}|abc"
    with pytest.raises(Fault, match="Unknown cursor") as caught:
        await library.copies.read("c", "abc" if place == "record" else whole)
    assert caught.value.code == "invalid_argument"

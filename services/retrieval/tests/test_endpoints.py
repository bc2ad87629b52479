"""The typed endpoints over the bus."""

from __future__ import annotations

import msgspec
import pytest

from searchbus_bus import MemoryBroker
from searchbus_contracts import Actor, Fault
from searchbus_contracts.ingest import (
    DeleteReply,
    DeleteRequest,
    IngestReply,
    IngestRequest,
    RebuildReply,
    RebuildRequest,
)
from searchbus_contracts.retrieval import (
    Document,
    GetRequest,
    ListReply,
    ListRequest,
    SearchReply,
    SearchRequest,
    SimilarityReply,
    SimilarityRequest,
)
from searchbus_retrieval.service import build_worker

from .conftest import document


@pytest.fixture
async def request_(library):
    broker = MemoryBroker()
    await broker.connect().serve(build_worker(library))
    bus = broker.connect()

    async def request_(verb, message, reply, roles=("searchbus-operator",)):
        return await bus.request(
            bus.subjects.endpoint("retrieval", verb), message, reply, service="retrieval",
            timeout_s=10, actor=Actor(subject="a", roles=roles),
        )  # fmt: skip

    return request_


async def test_ingest_search_get_list_and_delete(request_):
    """One document from its ingest to its deletion."""
    whales, empty = document("w", "Whales sing."), document("e", " ")
    ingested = await request_(
        "ingest", IngestRequest(collection="c", documents=(whales, empty)), IngestReply
    )
    assert [(r.outcome, r.reason) for r in ingested.results] == [
        ("stored", None),
        ("refused", "The document has no text."),
    ]
    found = await request_("search", SearchRequest(query="whales"), SearchReply)
    assert [hit.document_id for hit in found.hits] == [whales.document_id]
    whole = await request_("get", GetRequest(document_id=whales.document_id), Document)
    assert whole.text == "Whales sing."
    listed = await request_("list", ListRequest(), ListReply)
    assert [(c.name, c.documents, c.chunks) for c in listed.collections] == [("c", 1, 1)]
    page = await request_("list", ListRequest(collection="c"), ListReply)
    assert [d.document_id for d in page.documents] == [whales.document_id]
    deleted = await request_(
        "delete", DeleteRequest(collection="c", document_ids=(whales.document_id,)), DeleteReply
    )
    assert deleted.documents == 1
    assert (await request_("search", SearchRequest(query="whales"), SearchReply)).hits == ()


async def test_documents_are_listed_by_a_filter(request_):
    """On the fields of the collection; another field is named."""
    for name, site in (("a", "a.org"), ("b", "b.org")):
        kept = msgspec.structs.replace(document(name, f"Text {name}."), metadata={"site": site})
        ingest = IngestRequest(collection="c", documents=(kept,), fields={"site": "keyword"})
        await request_("ingest", ingest, IngestReply)
    page = await request_("list", ListRequest(collection="c", where={"site": "b.org"}), ListReply)
    assert [d.metadata["site"] for d in page.documents] == ["b.org"]
    with pytest.raises(Fault, match="Unknown field 'host'"):
        await request_("list", ListRequest(collection="c", where={"host": "x"}), ListReply)


async def test_passages_of_a_document_are_listed_page_by_page(request_):
    """In the order of the text; the pages together have every one once."""
    text = "\n\n".join(f"# Part {number}\n\nWhales sing {number}. " * 40 for number in range(8))
    sent = document("w", text)
    await request_("ingest", IngestRequest(collection="c", documents=(sent,)), IngestReply)
    found, cursor = [], None
    while True:
        asked = ListRequest(collection="c", document_id=sent.document_id, limit=3, cursor=cursor)
        page = await request_("list", asked, ListReply)
        assert len(page.passages) <= 3
        found += page.passages
        cursor = page.next_cursor
        if cursor is None:
            break
    (summary,) = (await request_("list", ListRequest(collection="c"), ListReply)).documents
    assert len(found) == summary.chunk_count > 3
    assert [one.start for one in found] == sorted(one.start for one in found)
    assert all(text[one.start : one.end] == one.text for one in found)
    for name, wrong, code in (("c", "x", "not_found"), ("none", sent.document_id, "not_found")):
        asked = ListRequest(collection=name, document_id=wrong)
        with pytest.raises(Fault) as raised:
            await request_("list", asked, ListReply)
        assert raised.value.code == code
    asked = ListRequest(collection="c", document_id=sent.document_id, cursor="-1")
    with pytest.raises(Fault) as raised:
        await request_("list", asked, ListReply)
    assert raised.value.code == "invalid_argument"


async def test_without_collections_a_search_is_empty(request_):
    """Nothing is ingested yet; this request does not fail."""
    assert (await request_("search", SearchRequest(query="whales"), SearchReply)).hits == ()


async def test_relevant_only_leaves_out_what_is_beside_the_point(request_):
    """Everything, where nothing is near."""
    whales, trains = document("w", "Whales sing."), document("t", "Trains leave at noon.")
    await request_("ingest", IngestRequest(collection="c", documents=(whales, trains)), IngestReply)

    async def found(query: str, **options) -> list[str]:
        reply = await request_("search", SearchRequest(query=query, **options), SearchReply)
        return [hit.document_id for hit in reply.hits]

    assert await found("whales sing") == [whales.document_id, trains.document_id]
    assert await found("whales sing", relevant_only=True) == [whales.document_id]
    assert await found("repair a bicycle", relevant_only=True) == []


@pytest.mark.parametrize(
    ("verb", "message", "reply"),
    [
        (
            "ingest",
            IngestRequest(collection="c", documents=(document("w", "Whales."),)),
            IngestReply,
        ),
        ("delete", DeleteRequest(collection="c"), DeleteReply),
        ("rebuild", RebuildRequest(collection="c", step="end"), RebuildReply),
    ],
)
async def test_only_the_operator_writes(request_, verb, message, reply):
    """Reading needs no role."""
    for roles in ((), ("reader",)):
        with pytest.raises(Fault) as caught:
            await request_(verb, message, reply, roles)
        assert caught.value.code == "forbidden"


async def test_similarity_of_texts_to_a_question(request_):
    """For callers of any role, since no document is read."""
    request = SimilarityRequest(query="Do whales sing?", texts=("Boats float.", "Whales sing."))
    found = await request_("similarity", request, SimilarityReply, roles=())
    boats, whales = found.cosines
    assert -1 <= boats < whales <= 1


async def test_copy_of_a_collection_is_filled_and_takes_its_place(request_):
    """Lists and deletes with `staged` concern the copy, those without it the collection."""
    old, new = document("o", "Old whales sing."), document("n", "New whales sing.")

    async def ingest(one, **options):
        message = IngestRequest(collection="c", documents=(one,), **options)
        await request_("ingest", message, IngestReply)

    async def listed(**options):
        reply = await request_("list", ListRequest(collection="c", **options), ListReply)
        return [(d.collection, d.title) for d in reply.documents]

    async def rebuild(step):
        message = RebuildRequest(collection="c", step=step)
        return (await request_("rebuild", message, RebuildReply)).documents

    await ingest(old)
    assert await rebuild("begin") == 0
    for one in (old, new):
        await ingest(one, staged=True)
    stale = DeleteRequest(collection="c", document_ids=(old.document_id,), staged=True)
    assert (await request_("delete", stale, DeleteReply)).documents == 1
    assert await listed() == [("c", old.title)]
    assert await listed(staged=True) == [("c", new.title)]
    assert await rebuild("end") == 1
    assert await listed() == [("c", new.title)]

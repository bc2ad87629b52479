"""Collections that require roles: without them they seem not to exist, in every request."""

from __future__ import annotations

import pytest

from searchbus_bus import MemoryBroker
from searchbus_contracts import (
    Actor,
    Fault,
    ResourceListReply,
    ResourceListRequest,
    ResourceReadReply,
    ResourceReadRequest,
    ResourceSearchReply,
    ResourceSearchRequest,
)
from searchbus_contracts.headers import OPERATOR_ROLE
from searchbus_contracts.ingest import (
    Chunk,
    DeleteReply,
    DeleteRequest,
    ExportReply,
    ExportRequest,
    IngestReply,
    IngestRequest,
    NewDocument,
    RebuildReply,
    RebuildRequest,
    RestoreReply,
    RestoreRequest,
)
from searchbus_contracts.retrieval import (
    Document,
    GetRequest,
    ListReply,
    ListRequest,
    SearchReply,
    SearchRequest,
)
from searchbus_retrieval.access import MEMORY, Access
from searchbus_retrieval.service import build_worker

GUEST, HR = Actor(subject="g"), Actor(subject="h", roles=("ROLE_HR",))


@pytest.fixture
async def ask(library):
    broker = MemoryBroker()
    for name in ("hr", "open"):
        text = f"Salaries of the {name} people are listed here."
        document = NewDocument(
            document_id="d", title=name, text=text, chunks=(Chunk(start=0, end=len(text)),)
        )
        await library.store(name, document, {})
    await broker.connect().serve(build_worker(library, access=Access({"hr": ["HR"]})))
    bus = broker.connect()

    async def ask(subject, message, reply, actor):
        return await bus.request(
            subject, message, reply, service="retrieval", timeout_s=5, actor=actor
        )

    ask.subjects = bus.subjects
    return ask


@pytest.mark.parametrize(("actor", "seen"), [(GUEST, {"open"}), (HR, {"hr", "open"})])
async def test_one_rule_for_search_list_and_read(ask, actor, seen):
    """Results, collections, resources: by role alone."""
    sub = ask.subjects
    found = await ask(
        sub.endpoint("retrieval", "search"), SearchRequest(query="salaries"), SearchReply, actor
    )
    assert {hit.collection for hit in found.hits} == seen
    listed = await ask(sub.endpoint("retrieval", "list"), ListRequest(), ListReply, actor)
    assert {info.name for info in listed.collections} == seen
    page = await ask(
        sub.resource("documents", "list"), ResourceListRequest(), ResourceListReply, actor
    )
    assert {r.name for r in page.resources} == seen
    by_content = await ask(
        sub.resource("documents", "search"),
        ResourceSearchRequest(query="salaries"),
        ResourceSearchReply,
        actor,
    )
    assert {r.name for r in by_content.resources} == seen
    anywhere = await ask(
        sub.endpoint("retrieval", "get"), GetRequest(document_id="d"), Document, actor
    )
    assert anywhere.collection == sorted(seen)[0]


async def test_hidden_collection_looks_like_none(ask):
    """The same words as for a collection that is not there."""
    sub = ask.subjects
    for verb, message, reply in (
        ("search", SearchRequest(query="x", collections=("hr",)), SearchReply),
        ("get", GetRequest(document_id="d", collection="hr"), Document),
        ("list", ListRequest(collection="hr"), ListReply),
    ):
        failures = []
        for name in ("hr", "none"):
            asked = type(message)(**{
                **{f: getattr(message, f) for f in message.__struct_fields__},
                ("collections" if verb == "search" else "collection"): (name,) if verb == "search" else name,
            })  # fmt: skip
            with pytest.raises(Fault) as caught:
                await ask(sub.endpoint("retrieval", verb), asked, reply, GUEST)
            failures.append((caught.value.code, caught.value.failure.message.replace(name, "?")))
        assert failures[0] == failures[1]
        assert failures[0][0] == "not_found"
    with pytest.raises(Fault):
        await ask(sub.resource("documents", "read"), ResourceReadRequest(uri="searchbus://hr/d"),
                  ResourceReadReply, GUEST)  # fmt: skip


def test_star_is_every_other_collection():
    """Closed by default, where that is wanted."""
    access = Access({"*": ["STAFF"], "open": []})
    assert access.may_read(GUEST, "open")
    assert not access.may_read(GUEST, "other")
    assert access.may_read(Actor(roles=("STAFF",)), "other")


async def test_who_stores_documents_needs_the_roles_of_the_collection_too(ask):
    """The operator's role does not open the collections of others; nobody writes the memory so."""
    text = "Salaries of nobody."
    document = NewDocument(
        document_id="n", title="n", text=text, chunks=(Chunk(start=0, end=len(text)),)
    )
    outsider = Actor(subject="o", roles=(OPERATOR_ROLE,))
    insider = Actor(subject="i", roles=(OPERATOR_ROLE, "ROLE_HR"))
    ingest, delete = (ask.subjects.endpoint("retrieval", verb) for verb in ("ingest", "delete"))
    request = IngestRequest(collection="hr", documents=(document,))
    gone = DeleteRequest(collection="hr", document_ids=("d",))
    for subject, message, reply in ((ingest, request, IngestReply), (delete, gone, DeleteReply)):
        with pytest.raises(Fault, match="There is no collection 'hr'"):
            await ask(subject, message, reply, outsider)
        await ask(subject, message, reply, insider)
    notes = IngestRequest(collection=MEMORY, documents=(document,))
    with pytest.raises(Fault, match="collection: searchbus_memory"):
        await ask(ingest, notes, IngestReply, insider)


async def test_copies_and_rebuilds_need_the_roles_of_the_collection_too(ask):
    """The operator's role alone neither reads nor replaces it; the commands have every role."""
    outsider = Actor(subject="o", roles=(OPERATOR_ROLE,))

    async def asked(verb, message, reply, actor):
        return await ask(ask.subjects.endpoint("retrieval", verb), message, reply, actor)

    for roles in ((OPERATOR_ROLE, "ROLE_HR"), ("*",)):
        insider = Actor(subject="i", roles=roles)
        whole = await asked("export", ExportRequest(collection="hr"), ExportReply, insider)
        for verb, message, reply in (
            ("export", ExportRequest(collection="hr"), ExportReply),
            ("rebuild", RebuildRequest(collection="hr", step="begin"), RebuildReply),
            ("restore", RestoreRequest(collection="hr", copy=whole.collection, points=whole.points),
             RestoreReply),
            ("rebuild", RebuildRequest(collection="hr", step="end"), RebuildReply),
        ):  # fmt: skip
            with pytest.raises(Fault, match="There is no collection 'hr'"):
                await asked(verb, message, reply, outsider)
            await asked(verb, message, reply, insider)
    document = await asked("get", GetRequest(document_id="d", collection="hr"), Document, HR)
    assert "Salaries" in document.text

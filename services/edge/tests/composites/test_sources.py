"""Documents and web as sources, over workers on the in-memory bus."""

from __future__ import annotations

import pytest

from searchbus_bus import Call, Directory, Worker, endpoint
from searchbus_contracts import Actor, Fault, ToolCall, ToolDescriptor, ToolReply
from searchbus_contracts.retrieval import (
    Document,
    GetRequest,
    SearchHit,
    SearchReply,
    SearchRequest,
)
from searchbus_edge.calls.audit import AuditLog
from searchbus_edge.calls.limits import LocalLimiter
from searchbus_edge.composites.ids import Ids
from searchbus_edge.composites.sources import Documents, Web
from searchbus_edge.lists.registry import Registry
from searchbus_edge.requests.tool_calls import ToolCalls

IDS = Ids(b"k" * 32)
SEARCHER = Actor(subject="a", roles=("WEB",))
OTHER = Actor(subject="b", roles=())
OPTIONS = {"actor": SEARCHER, "timeout_s": 5.0}


class Retrieval:
    cosine = 0.8

    @endpoint
    async def search(self, call: Call, request: SearchRequest) -> SearchReply:
        return SearchReply(hits=(
            SearchHit(collection="books", document_id="d/1", chunk_id="1", title="", text="t",
                      score=1.0, cosine=self.cosine, url="file:///x"),
            SearchHit(collection="books", document_id="d2", chunk_id="1", title="Two", text="t",
                      score=0.9, cosine=0.1, url="https://x.example"),
        ))  # fmt: skip

    @endpoint
    async def get(self, call: Call, request: GetRequest) -> Document:
        return Document(
            collection=request.collection, document_id=request.document_id, title="", text="all",
            chunk_count=1, metadata={"year": 2024, "empty": None},
        )  # fmt: skip


def web_worker(replies: dict[str, ToolReply]) -> Worker:
    worker = Worker("web")
    for name in ("web_search", "web_extract_content"):

        async def answer(call: Call, request: ToolCall) -> ToolReply:
            return replies[request.tool]

        worker.add_tool(
            ToolDescriptor(name=name, toolset="web", description="x", required_roles=("WEB",),
                           input_schema={"type": "object"}),
            answer,
        )  # fmt: skip
    return worker


def web_source(bus, directory) -> Web:
    registry, off = Registry(directory, ()), LocalLimiter(0, 1)
    calls = ToolCalls(
        bus, registry, None, limiter=off, costly=off, audit=AuditLog(), timeout_cap_s=60.0
    )
    return Web(calls, IDS, registry)


@pytest.fixture
async def setup(bus, broker):
    """(documents, web, retrieval, replies of the web)."""
    retrieval, replies = Retrieval(), {}
    worker = Worker("retrieval")
    worker.add(retrieval)
    await broker.connect(name="retrieval").serve(worker)
    await broker.connect(name="web").serve(web_worker(replies))
    directory = Directory(bus)
    await directory.start()
    documents = Documents(bus, IDS, directory, base_url="https://edge.example")
    yield documents, web_source(bus, directory), retrieval, replies
    await directory.close()


async def test_documents_have_an_address_of_their_own_or_ours(setup):
    """A file of the server's disk is no address."""
    documents, *_ = setup
    assert documents.serves(OTHER)
    first, second = await documents.search("q", 10, **OPTIONS)
    assert first.url == "https://edge.example/documents/books/d%2F1"
    assert (first.title, first.source, first.weight) == ("d/1", "documents/books", 1.0)
    assert (second.url, second.title) == ("https://x.example", "Two")


async def test_documents_count_half_where_none_is_near(setup):
    """Beside other sources."""
    documents, _, retrieval, _ = setup
    retrieval.cosine = 0.61
    assert {hit.weight for hit in await documents.search("q", 10, **OPTIONS)} == {0.5}


async def test_document_is_fetched_by_its_id(setup):
    """Metadata as text; other ids are another source's."""
    documents, *_ = setup
    fetched = await documents.fetch(IDS.of_document("books", "d/1"), **OPTIONS)
    assert (fetched.title, fetched.text) == ("d/1", "all")
    assert fetched.metadata == {"source": "documents", "collection": "books", "year": "2024"}
    assert await documents.fetch("web:x", **OPTIONS) is None
    with pytest.raises(Fault, match="no such id"):
        await documents.fetch(IDS.of_document("books", "x" * 513), **OPTIONS)


async def test_web_serves_callers_with_its_role(setup):
    """To others its ids look unknown."""
    _, web, *_ = setup
    assert web.serves(SEARCHER)
    assert not web.serves(OTHER)
    with pytest.raises(Fault, match="no such id"):
        await web.fetch(IDS.of_page("https://x"), actor=OTHER, timeout_s=5.0)


async def test_web_results_become_hits(setup):
    """Without an address there is no hit; without a title the address is one."""
    _, web, _, replies = setup
    rows = [{"title": "", "url": "https://x", "snippet": "s"}, {"title": "n", "url": ""}]
    replies["web_search"] = ToolReply(structured={"results": rows})
    (hit,) = await web.search("q", 10, **OPTIONS)
    assert (hit.title, hit.url, hit.text, hit.source) == ("https://x", "https://x", "s", "web")
    assert IDS.page(hit.id) == "https://x"


@pytest.mark.parametrize(("status", "retryable"), [("timeout", True), ("http_404", False)])
async def test_unreadable_page_is_a_typed_failure(setup, status, retryable):
    """It is retryable where another attempt may help."""
    _, web, _, replies = setup
    items = [{"url": "https://x", "content": "", "status": status, "message": "Why."}]
    replies["web_extract_content"] = ToolReply(structured={"items": items})
    with pytest.raises(Fault, match=rf"could not be read \({status}\)\. Why\.") as caught:
        await web.fetch(IDS.of_page("https://x"), **OPTIONS)
    assert caught.value.failure.retryable is retryable


async def test_failed_tool_is_a_failed_source(setup):
    """Not an empty result."""
    _, web, _, replies = setup
    replies["web_search"] = ToolReply(structured={"error": {}}, is_error=True)
    with pytest.raises(Fault) as caught:
        await web.search("q", 10, **OPTIONS)
    assert caught.value.code == "upstream_failed"


async def test_failure_of_the_tool_keeps_its_code(setup):
    """A limit is a limit for whoever meets it."""
    _, web, _, replies = setup
    error = {"code": "quota_exhausted", "message": "No credit.", "retryable": False}
    replies["web_search"] = ToolReply(structured={"error": error}, is_error=True)
    with pytest.raises(Fault, match="No credit") as caught:
        await web.search("q", 10, **OPTIONS)
    assert caught.value.code == "quota_exhausted"

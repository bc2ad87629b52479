"""Documents and web as sources, over workers on the in-memory bus."""

from __future__ import annotations

from typing import ClassVar

import pytest

from searchbus_bus import Call, Directory, Worker, endpoint
from searchbus_contracts import Actor, ErrorCode, Fault, ToolCall, ToolDescriptor, ToolReply
from searchbus_contracts.retrieval import (
    Document,
    GetRequest,
    QuoteReply,
    QuoteRequest,
    SearchHit,
    SearchReply,
    SearchRequest,
    SimilarityReply,
    SimilarityRequest,
)
from searchbus_edge.catalog.registry import Registry
from searchbus_edge.composites.documents import Documents
from searchbus_edge.composites.passages import Similarity
from searchbus_edge.composites.sources import Ids
from searchbus_edge.composites.web import Web
from searchbus_edge.tools.audit import AuditLog
from searchbus_edge.tools.call import ToolCalls
from searchbus_edge.tools.limits import LocalLimiter
from searchbus_edge.tools.resolve import Resolver
from searchbus_passages import find_quote

IDS = Ids(b"k" * 32)
SEARCHER = Actor(subject="a", roles=("WEB",))
OTHER = Actor(subject="b", roles=())
OPTIONS = {"actor": SEARCHER, "timeout_s": 5.0}


class Retrieval:
    def __init__(self) -> None:
        self.requests: list[SearchRequest] = []
        self.compared: list[SimilarityRequest] = []

    cosine = 0.8
    relevance = 0.9
    literal = False
    title = ""
    failed: ClassVar[dict[str, str]] = {}
    searched: tuple[str, ...] = ()

    @endpoint
    async def search(self, call: Call, request: SearchRequest) -> SearchReply:
        self.requests.append(request)
        return SearchReply(failed=self.failed, searched=self.searched, hits=(
            SearchHit(collection="books", document_id="d/1", chunk_id="1", title=self.title, text="t",
                      score=1.0, cosine=self.cosine, metadata={"path": "a/two.md"},
                      relevance=self.relevance, url="file:///x"),
            SearchHit(collection="books", document_id="d/1", chunk_id="2", title=self.title,
                      text="u",
                      score=1.0, cosine=self.cosine, relevance=self.relevance,
                      start=7, end=8, content_hash="h"),
            SearchHit(collection="books", document_id="d2", chunk_id="1", title="Two", text="t",
                      score=0.9, cosine=0.1, relevance=0.45, url="https://x.example",
                      literal=self.literal),
        ))  # fmt: skip

    @endpoint
    async def get(self, call: Call, request: GetRequest) -> Document:
        return Document(
            collection=request.collection, document_id=request.document_id, title="",
            text="all"[request.start : request.end], start=request.start, chars=3,
            chunk_count=1, metadata={"year": 2024, "empty": None},
        )  # fmt: skip

    @endpoint
    async def similarity(self, call: Call, request: SimilarityRequest) -> SimilarityReply:
        self.compared.append(request)
        if "fail" in request.query:
            raise Fault(ErrorCode.UNAVAILABLE, "No model.")
        return SimilarityReply(cosines=tuple(0.3 if "far" in t else 0.7 for t in request.texts))

    @endpoint
    async def quote(self, call: Call, request: QuoteRequest) -> QuoteReply:
        place = find_quote("all", request.quote)
        return QuoteReply(
            collection=request.collection or "books", document_id=request.document_id, title="",
            match=place.match, start=place.start, end=place.end, text="all", content_hash="h",
        )  # fmt: skip


def web_worker(replies: dict[str, ToolReply | tuple[ToolReply, ...]]) -> Worker:
    """Gives one reply always, or several one after the other."""
    worker = Worker("web")
    for name in ("web_search", "web_extract_content"):

        async def answer(call: Call, request: ToolCall) -> ToolReply:
            reply = replies[request.tool]
            if isinstance(reply, tuple):
                reply, *rest = reply
                replies[request.tool] = tuple(rest)
            return reply

        worker.add_tool(
            ToolDescriptor(name=name, toolset="web", description="x", required_roles=("WEB",),
                           input_schema={"type": "object"}),
            answer,
        )  # fmt: skip
    return worker


def web_source(bus, directory) -> Web:
    registry, off = Registry(directory, ()), LocalLimiter(0, 1)
    calls = ToolCalls(
        bus,
        Resolver(registry),
        Worker("edge"),
        limiter=off,
        costly=off,
        audit=AuditLog(),
        timeout_cap_s=60.0,
    )
    return Web(calls, IDS, registry, Similarity(bus, directory))


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

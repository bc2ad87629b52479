"""A retrieval service on the in-memory bus that only remembers what it is sent."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from searchbus_bus import Bus, Call, MemoryBroker, Worker, endpoint
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.ingest import (
    DeleteReply,
    DeleteRequest,
    IngestReply,
    IngestRequest,
    IngestResult,
    NewDocument,
    RebuildReply,
    RebuildRequest,
    revision_of,
)
from searchbus_contracts.retrieval import (
    DocumentSummary,
    Explanation,
    Leg,
    ListReply,
    ListRequest,
    Reading,
    SearchHit,
    SearchReply,
    SearchRequest,
)
from searchbus_ingest.sources import reading
from searchbus_ingest.sources.content import SUFFIXES
from searchbus_ingest.sources.files import read_files
from searchbus_ingest.sources.item import Item
from searchbus_ingest.sources.reading import Reader
from searchbus_ingest.sources.walk import find_files
from searchbus_runtime import BusAddress

WHY = Explanation(rank=1, meaning=Leg(rank=1, score=0.5, share=1.0))


@dataclass
class Retrieval:
    """Documents by id; `batches` has the number of documents of each ingest request."""

    documents: dict[str, NewDocument] = field(default_factory=dict)
    copy: dict[str, NewDocument] = field(default_factory=dict)
    batches: list[int] = field(default_factory=list)
    staged: list[bool] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    declared: dict[str, str] = field(default_factory=dict)
    failure: Fault | None = None
    failed: dict[str, str] = field(default_factory=dict)

    @endpoint
    async def ingest(self, call: Call, request: IngestRequest) -> IngestReply:
        if self.failure is not None:
            raise self.failure
        self.batches.append(len(request.documents))
        self.staged.append(request.staged)
        documents = self._those(staged=request.staged)
        return IngestReply(results=tuple(self._store(documents, d) for d in request.documents))

    def _those(self, *, staged: bool) -> dict[str, NewDocument]:
        return self.copy if staged else self.documents

    def _store(self, documents: dict[str, NewDocument], document: NewDocument) -> IngestResult:
        if "refuse me" in document.text:
            return IngestResult(
                document_id=document.document_id, outcome="refused", reason="Refused."
            )
        known = document.document_id in documents
        documents[document.document_id] = document
        return IngestResult(
            document_id=document.document_id, outcome="replaced" if known else "stored",
            chunks=len(document.chunks),
            reason="A value is not found." if "odd value" in document.text else None,
        )  # fmt: skip

    @endpoint
    async def list_(self, call: Call, request: ListRequest) -> ListReply:
        """One document a page, so that every list has several."""
        documents = self._those(staged=request.staged)
        if not documents:
            raise Fault(ErrorCode.NOT_FOUND, "There is no collection.")
        ids = sorted(documents)
        at = ids.index(request.cursor) if request.cursor else 0
        document = documents[ids[at]]
        summary = DocumentSummary(
            collection="c", document_id=document.document_id, title=document.title,
            chunk_count=len(document.chunks), revision=revision_of(document), size_bytes=1,
            metadata=document.metadata,
        )  # fmt: skip
        following = ids[at + 1] if at + 1 < len(ids) else None
        return ListReply(documents=(summary,), next_cursor=following)

    @endpoint
    async def delete(self, call: Call, request: DeleteRequest) -> DeleteReply:
        documents = self._those(staged=request.staged)
        gone = [documents.pop(key, None) for key in request.document_ids]
        return DeleteReply(documents=sum(document is not None for document in gone))

    @endpoint
    async def rebuild(self, call: Call, request: RebuildRequest) -> RebuildReply:
        self.steps.append(request.step)
        self.declared |= request.fields
        if request.step == "end":
            self.documents, self.copy = self.copy, {}
        return RebuildReply(documents=len(self.documents))

    @endpoint
    async def search(self, call: Call, request: SearchRequest) -> SearchReply:
        if request.query == "fail":
            raise Fault(ErrorCode.NOT_FOUND, "There is no collection 'x'.")
        hits = [
            SearchHit(
                collection="c", document_id=d.document_id, chunk_id="1", title=d.title,
                text=d.text, score=1.0, cosine=0.8, section="Songs",
                explanation=WHY if request.explain else None,
            )
            for d in self.documents.values()
            if request.query in d.text
        ]  # fmt: skip
        readings = {"c": Reading(words=request.query, ranked=1)} if request.explain else {}
        return SearchReply(
            hits=tuple(hits[: request.limit]), readings=readings, failed=self.failed,
            searched=("c",) if self.documents else (),
        )  # fmt: skip


@pytest.fixture
def retrieval() -> Retrieval:
    return Retrieval()


@pytest.fixture
def command_bus(retrieval, monkeypatch) -> BusAddress:
    """The address of a stack whose bus has the service, for commands."""

    async def connect(url, **options):
        return await bus_with(retrieval)

    monkeypatch.setattr("searchbus_bus.connect", connect)
    found = BusAddress("nats://test", {})
    monkeypatch.setattr("searchbus_runtime.connection.find_bus", lambda folder: found)
    return found


@pytest.fixture
async def bus(retrieval) -> Bus:
    """A connection to a bus that the service is on."""
    return await bus_with(retrieval)


async def bus_with(retrieval: Retrieval) -> Bus:
    """A connection to a new bus that the service is on."""
    broker = MemoryBroker()
    worker = Worker("retrieval")
    worker.add(retrieval)
    await broker.connect().serve(worker)
    return broker.connect()


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    """Files are parsed here, since a process for each test takes long. See test_reading.py."""
    monkeypatch.setattr(reading, "PARSED", frozenset())


def read_path(path: Path, collection: str) -> list[Item]:
    """A file, or every known file below a folder."""
    return asyncio.run(_read_all(path, collection))


async def _read_all(path: Path, collection: str) -> list[Item]:
    return [item async for item in read_files(find_files(path, SUFFIXES), collection, Reader())]

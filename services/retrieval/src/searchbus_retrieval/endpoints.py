"""The typed endpoints `retrieval.*` of the service's declaration."""

from __future__ import annotations

import asyncio

import msgspec

from searchbus_bus import Call, endpoint
from searchbus_bus.tasks import all_of
from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.headers import OPERATOR_ROLE
from searchbus_contracts.ingest import (
    DeleteReply,
    DeleteRequest,
    ExportReply,
    ExportRequest,
    IngestReply,
    IngestRequest,
    IngestResult,
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
    QuoteDifference,
    QuoteReply,
    QuoteRequest,
    SearchReply,
    SearchRequest,
    SimilarityReply,
    SimilarityRequest,
)
from searchbus_passages import Comparisons

from .access import OPEN, Access
from .documents.collections import staged, unknown_cursor
from .documents.copying import points_of
from .fitting import Fitted, fit, rest_of
from .library import Library
from .ranking.explaining import only_relevant

_DOCUMENTS_AT_ONCE = 4
WRITERS = (OPERATOR_ROLE,)
"""Roles of who stores and deletes documents; the command line has every role."""


class RetrievalEndpoints:
    """All check the roles of the collection; what writes needs those of `WRITERS` too."""

    def __init__(self, library: Library, access: Access = OPEN) -> None:
        self._library = library
        self._access = access
        self._comparisons = Comparisons()

    @endpoint
    async def search(self, call: Call, request: SearchRequest) -> SearchReply:
        """Search the named collections, or all that the caller may read."""
        for name in request.collections:
            self._access.require(call.actor, name)
        names = request.collections or self._access.readable(
            call.actor, await self._library.names()
        )
        if not names:
            return SearchReply(hits=())
        reply = await self._library.search_all(
            names,
            request.query,
            limit=request.limit,
            where=request.where,
            per_document=request.per_document,
            explain=request.explain,
        )
        if request.relevant_only:
            reply = only_relevant(reply)
        if request.max_tokens is None:
            rest = rest_of(reply.hits, request.cursor, request.query)
            return msgspec.structs.replace(reply, hits=tuple(rest))

        def render(fitted: Fitted) -> SearchReply:
            return msgspec.structs.replace(
                reply, hits=fitted.hits, truncated=fitted.truncated, next_cursor=fitted.cursor
            )

        fitted = await fit(
            reply.hits,
            request.max_tokens,
            render,
            query=request.query,
            highlights=self._library.highlights,
            cursor=request.cursor,
        )
        return render(fitted)

    @endpoint
    async def get(self, call: Call, request: GetRequest) -> Document:
        """A whole document of the named collection, or of the first readable one that has it."""
        names = [request.collection] if request.collection else await self._library.names()
        readable = self._access.readable(call.actor, names)
        return await self._library.get_from(
            readable, request.document_id, start=request.start, end=request.end
        )

    @endpoint
    async def quote(self, call: Call, request: QuoteRequest) -> QuoteReply:
        """Where a quotation stands in a document, or the nearest place and how it differs."""
        names = [request.collection] if request.collection else await self._library.names()
        readable = self._access.readable(call.actor, names)
        document = await self._library.get_from(readable, request.document_id)
        try:
            place = await self._comparisons.find(document.text, request.quote)
        except ValueError as error:
            raise Fault(ErrorCode.INVALID_ARGUMENT, f"{error}.") from None
        return QuoteReply(
            collection=document.collection,
            document_id=document.document_id,
            title=document.title,
            match=place.match,
            start=place.start,
            end=place.end,
            text=document.text[place.start : place.end],
            similarity=place.similarity,
            differences=tuple(QuoteDifference(d.quote, d.text) for d in place.differences),
            url=document.url,
            content_hash=document.content_hash,
        )

    @endpoint
    async def similarity(self, call: Call, request: SimilarityRequest) -> SimilarityReply:
        """How near texts are to a question, by the default model."""
        cosines = await self._library.similarity(request.query, request.texts)
        return SimilarityReply(cosines=tuple(cosines))

    @endpoint
    async def list_(self, call: Call, request: ListRequest) -> ListReply:
        """The readable collections, a page of the documents of one, or of a document's passages."""
        if request.collection is None:
            infos = await self._library.list_collections()
            readable = [info for info in infos if self._access.may_read(call.actor, info.name)]
            return ListReply(collections=tuple(readable))
        self._access.require(call.actor, request.collection)
        name = staged(request.collection) if request.staged else request.collection
        if request.document_id is not None:
            passages, following = await self._library.list_passages(
                name, request.document_id, limit=request.limit, offset=_offset(request.cursor)
            )
            cursor = None if following is None else str(following)
            return ListReply(passages=tuple(passages), next_cursor=cursor)
        documents, next_id = await self._library.list_documents(
            name,
            limit=request.limit,
            start_id=request.cursor,
            where=await self._library.filter_of(name, request.where),
        )
        return ListReply(documents=tuple(documents), next_cursor=next_id)

    @endpoint(required_roles=WRITERS)
    async def ingest(self, call: Call, request: IngestRequest) -> IngestReply:
        """Store documents; one result for each, in the same order."""
        self._access.require_writable(call.actor, request.collection)
        slots = asyncio.Semaphore(_DOCUMENTS_AT_ONCE)
        name = staged(request.collection) if request.staged else request.collection

        async def store(document: NewDocument) -> IngestResult:
            async with slots:
                return await self._library.store(name, document, request.fields)

        results = await all_of(*(store(document) for document in request.documents))
        return IngestReply(results=tuple(results))

    @endpoint(required_roles=WRITERS)
    async def delete(self, call: Call, request: DeleteRequest) -> DeleteReply:
        """Delete documents, or the whole collection."""
        self._access.require(call.actor, request.collection)
        name = staged(request.collection) if request.staged else request.collection
        return DeleteReply(documents=await self._library.delete(name, request.document_ids))

    @endpoint(required_roles=WRITERS)
    async def rebuild(self, call: Call, request: RebuildRequest) -> RebuildReply:
        """Begin a copy of a collection, or put it in its place."""
        self._access.require(call.actor, request.collection)
        if request.step == "begin":
            documents = await self._library.begin_rebuild(request.collection, request.fields)
        else:
            documents = await self._library.end_rebuild(request.collection)
        return RebuildReply(documents=documents)

    @endpoint(required_roles=WRITERS)
    async def export(self, call: Call, request: ExportRequest) -> ExportReply:
        """The next documents of a collection, for a copy."""
        self._access.require(call.actor, request.collection)
        return await self._library.copies.read(request.collection, request.cursor)

    @endpoint(required_roles=WRITERS)
    async def restore(self, call: Call, request: RestoreRequest) -> RestoreReply:
        """Store points of a copy beside a collection."""
        self._access.require(call.actor, request.collection)
        points = await asyncio.to_thread(points_of, request.copy, request.points)
        await self._library.copies.store(request.collection, request.copy, points)
        return RestoreReply(points=len(points))


def _offset(cursor: str | None) -> int:
    """The number of a page's first passage; raises Fault(invalid_argument)."""
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 9):
        raise unknown_cursor()
    return int(cursor or 0)

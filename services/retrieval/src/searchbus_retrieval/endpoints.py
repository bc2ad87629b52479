"""The typed endpoints `retrieval.{search,get,list,ingest,delete}` for other services."""

from __future__ import annotations

import asyncio

from searchbus_bus import Call, Worker
from searchbus_contracts.retrieval import (
    DeleteReply,
    DeleteRequest,
    Document,
    GetRequest,
    IngestReply,
    IngestRequest,
    IngestResult,
    ListReply,
    ListRequest,
    NewDocument,
    SearchReply,
    SearchRequest,
)

from .access import OPEN, Access
from .everywhere import search_collections
from .library import Library

__all__ = ["add_endpoints"]

_DOCUMENTS_AT_ONCE = 4


def add_endpoints(worker: Worker, library: Library, access: Access = OPEN) -> None:
    """Answer the typed requests on a worker."""

    async def search(call: Call, request: SearchRequest) -> SearchReply:
        for name in request.collections:
            access.require(call.actor, name)
        named = request.collections or access.readable(call.actor, await library.names())
        if not named:
            return SearchReply(hits=())
        return await search_collections(
            library,
            named,
            request.query,
            limit=request.limit,
            where=request.where,
            per_document=request.per_document,
        )

    async def get(call: Call, request: GetRequest) -> Document:
        named = [request.collection] if request.collection else await library.names()
        return await library.get_from(access.readable(call.actor, named), request.document_id)

    async def list_(call: Call, request: ListRequest) -> ListReply:
        if request.collection is None:
            infos = await library.list_collections()
            readable = [i for i in infos if access.may_read(call.actor, i.name)]
            return ListReply(collections=tuple(readable))
        access.require(call.actor, request.collection)
        documents, next_id = await library.list_documents(
            request.collection, limit=request.limit, start_id=request.cursor
        )
        return ListReply(documents=tuple(documents), next_cursor=next_id)

    async def ingest(call: Call, request: IngestRequest) -> IngestReply:
        slots = asyncio.Semaphore(_DOCUMENTS_AT_ONCE)

        async def store(document: NewDocument) -> IngestResult:
            async with slots:
                return await library.store(request.collection, document, request.fields)

        results = await asyncio.gather(*(store(document) for document in request.documents))
        return IngestReply(results=tuple(results))

    async def delete(call: Call, request: DeleteRequest) -> DeleteReply:
        return DeleteReply(documents=await library.delete(request.collection, request.document_ids))

    worker.endpoint("search", SearchRequest, search)
    worker.endpoint("get", GetRequest, get)
    worker.endpoint("list", ListRequest, list_)
    worker.endpoint("ingest", IngestRequest, ingest)
    worker.endpoint("delete", DeleteRequest, delete)

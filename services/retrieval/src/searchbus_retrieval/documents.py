"""Documents as MCP resources: `searchbus://<collection>/<document_id>` (toolset `documents`).

The id is percent-encoded (RFC 3986), so that any source's id makes one path segment.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from searchbus_bus import Call, Worker
from searchbus_contracts import (
    ErrorCode,
    Fault,
    ResourceBody,
    ResourceDescriptor,
    ResourceListReply,
    ResourceListRequest,
    ResourceReadReply,
    ResourceReadRequest,
    ResourceSearchReply,
    ResourceSearchRequest,
    ResourceTemplate,
    is_token,
)
from searchbus_contracts.retrieval import (
    MAX_QUERY_CHARS,
    DocumentSummary,
    Metadata,
    SearchHit,
)

from .access import OPEN, Access
from .everywhere import search_collections
from .library import Library

__all__ = ["DOCUMENTS", "add_documents", "parse_uri", "uri_of"]

DOCUMENTS = ResourceTemplate(
    uri_template="searchbus://{collection}/{document_id}",
    name="document",
    toolset="documents",
    title="Documents",
    description="A document of a collection, whole. resources/list pages through all of them, "
    "resources/search finds them by their content.",
    mime_type="text/plain",
    lists=True,
    searches=True,
)
_MIN_COSINE = 0.55
"""A passage below is no match. Set low: of 56 questions about FOMC documents 2 have no passage
above it; small talk has none, but a technical question of another field mostly has some."""
_MAX_DESCRIPTION_CHARS = 300


def uri_of(collection: str, document_id: str) -> str:
    """The URI of a document."""
    return f"searchbus://{collection}/{quote(document_id, safe='')}"


def parse_uri(uri: str) -> tuple[str, str]:
    """(collection, document id) of a URI; raises Fault(not_found) for any other."""
    scheme, _, rest = uri.partition("://")
    collection, slash, encoded = rest.partition("/")
    document_id = unquote(encoded)
    known = scheme == "searchbus" and slash and is_token(collection) and document_id
    if not known or uri_of(collection, document_id) != uri:
        raise Fault(ErrorCode.NOT_FOUND, "There is no such document.")
    return collection, document_id


def add_documents(worker: Worker, library: Library, access: Access = OPEN) -> None:
    """Offer the documents as resources on a worker."""

    async def read(call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        collection, document_id = parse_uri(request.uri)
        document = await library.get_from(access.readable(call.actor, [collection]), document_id)
        body = ResourceBody(uri=request.uri, mime_type="text/plain", text=document.text)
        return ResourceReadReply(contents=(body,))

    async def list_page(call: Call, request: ResourceListRequest) -> ResourceListReply:
        """Collections by name, their documents by id; the cursor is `collection/next id`."""
        names = access.readable(call.actor, await library.names())
        current, _, start_id = (request.cursor or "").partition("/")
        found: list[ResourceDescriptor] = []
        for position, name in enumerate(names):
            if name < current:
                continue
            documents, next_id = await library.list_documents(
                name,
                limit=request.limit - len(found),
                start_id=start_id if name == current and start_id else None,
            )
            found += [_of_summary(name, document) for document in documents]
            following = f"{name}/{next_id}" if next_id is not None else None
            if following is None and len(found) >= request.limit and position + 1 < len(names):
                following = f"{names[position + 1]}/"
            if following is not None:
                return ResourceListReply(resources=tuple(found), next_cursor=following)
        return ResourceListReply(resources=tuple(found))

    async def search(call: Call, request: ResourceSearchRequest) -> ResourceSearchReply:
        named = access.readable(call.actor, await library.names())
        if not named:
            return ResourceSearchReply()
        found = await search_collections(
            library, named, request.query[:MAX_QUERY_CHARS], limit=request.limit, per_document=True
        )
        near = [hit for hit in found.hits if hit.cosine >= _MIN_COSINE]
        return ResourceSearchReply(resources=tuple(_of_hit(hit) for hit in near))

    worker.resource_templates(DOCUMENTS)
    worker.reads_resources("documents", read, list_page, search)


def _of_summary(collection: str, document: DocumentSummary) -> ResourceDescriptor:
    return ResourceDescriptor(
        uri=uri_of(collection, document.document_id),
        name=document.title[:256] or document.document_id[:256],
        toolset="documents",
        description=_about(collection, document.metadata, None),
        mime_type="text/plain",
    )


def _of_hit(hit: SearchHit) -> ResourceDescriptor:
    return ResourceDescriptor(
        uri=uri_of(hit.collection, hit.document_id),
        name=hit.title[:256] or hit.document_id[:256],
        toolset="documents",
        description=_about(hit.collection, hit.metadata, hit.text),
        mime_type="text/plain",
    )


def _about(collection: str, metadata: Metadata, text: str | None) -> str:
    facts = [str(metadata[key]) for key in ("date", "type") if metadata.get(key)]
    about = f"{collection}: {', '.join(facts)}" if facts else collection
    if text:
        about += f" … {' '.join(text.split())}"
    if len(about) > _MAX_DESCRIPTION_CHARS:
        about = about[: _MAX_DESCRIPTION_CHARS - 1].rsplit(" ", 1)[0] + "…"
    return about

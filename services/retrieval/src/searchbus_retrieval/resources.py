"""Documents as MCP resources: `searchbus://<collection>/<document_id>` (toolset `documents`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from urllib.parse import quote, unquote

from searchbus_bus import Call, Toolset, resource_list, resource_search, resource_template
from searchbus_contracts import (
    Actor,
    ErrorCode,
    Failure,
    Fault,
    ResourceBody,
    ResourceDescriptor,
    ResourceListReply,
    ResourceListRequest,
    ResourceReadReply,
    ResourceReadRequest,
    ResourceSearchReply,
    ResourceSearchRequest,
    is_token,
)
from searchbus_contracts.coverage import SourceCoverage, folded
from searchbus_contracts.retrieval import (
    MAX_QUERY_CHARS,
    DocumentSummary,
    Metadata,
    SearchHit,
    SearchReply,
)

from .access import OPEN, Access
from .documents.collections import damaged_collection
from .library import Library
from .ranking.explaining import near

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
        raise Fault(
            ErrorCode.NOT_FOUND, "There is no such document. Take a URI from the list of resources."
        )
    return collection, document_id


class DocumentResources(Toolset, name="documents"):
    """The documents of every collection that the caller may read."""

    def __init__(self, library: Library, access: Access = OPEN) -> None:
        self._library = library
        self._access = access

    @resource_template(
        "searchbus://{collection}/{document_id}",
        name="document",
        title="DocumentResources",
        mime_type="text/plain",
        untrusted=True,
    )
    async def read(self, call: Call, request: ResourceReadRequest) -> ResourceReadReply:
        """A document of a collection, whole. resources/list pages through all of them,
        resources/search finds them by their content."""
        collection, document_id = parse_uri(request.uri)
        readable = self._access.readable(call.actor, [collection])
        document = await self._library.get_from(readable, document_id)
        body = ResourceBody(uri=request.uri, mime_type="text/plain", text=document.text)
        return ResourceReadReply(contents=(body,))

    @resource_list
    async def list_page(self, call: Call, request: ResourceListRequest) -> ResourceListReply:
        """Collections by name, their documents by id; the cursor is `collection/next id`.

        Every page names the damaged collections that the caller may read.
        """
        names, damaged = await self._listed(call.actor)
        current, _, start_id = (request.cursor or "").partition("/")
        found: list[ResourceDescriptor] = []
        for position, name in enumerate(names):
            if name < current:
                continue
            documents, next_id = await self._library.list_documents(
                name,
                limit=request.limit - len(found),
                start_id=start_id if name == current and start_id else None,
            )
            found += [_described(name, document) for document in documents]
            following = f"{name}/{next_id}" if next_id is not None else None
            if following is None and len(found) >= request.limit and position + 1 < len(names):
                following = f"{names[position + 1]}/"
            if following is not None:
                return ResourceListReply(
                    resources=tuple(found), next_cursor=following, coverage=damaged
                )
        return ResourceListReply(resources=tuple(found), coverage=damaged)

    async def _listed(self, actor: Actor) -> tuple[list[str], tuple[SourceCoverage, ...]]:
        """The collections that can be listed, and those that cannot, of what the actor may read."""
        names = self._access.readable(actor, await self._library.names())
        damaged = self._library.damaged
        return [name for name in names if name not in damaged], tuple(
            SourceCoverage.of_failure(
                f"documents/{name}", damaged_collection(name, damaged[name]).failure
            )
            for name in names
            if name in damaged
        )

    @resource_search
    async def search(self, call: Call, request: ResourceSearchRequest) -> ResourceSearchReply:
        """Documents whose best passage is near to the query, or has it word for word.

        Raises:
            Fault: unavailable; nothing was found, and a collection could not be searched.
        """
        names = self._access.readable(call.actor, await self._library.names())
        if not names:
            return ResourceSearchReply()
        query = _cut(request.query)
        found = await self._library.search_all(names, query, limit=request.limit, per_document=True)
        hits = near(found.hits)
        if not hits and found.failed:
            failed = ", ".join(f"{name} ({code})" for name, code in found.failed.items())
            raise Fault(
                ErrorCode.UNAVAILABLE,
                f"Nothing was found, because collections could not be searched: {failed}. "
                "Try again shortly.",
            )
        return ResourceSearchReply(
            resources=tuple(_described(hit.collection, hit) for hit in hits),
            coverage=_coverage(found, hits),
        )


def _cut(query: str) -> str:
    """At most MAX_QUERY_CHARS, at the end of a word, so that a long sentence is still found."""
    if len(query) <= MAX_QUERY_CHARS:
        return query
    return (query[: MAX_QUERY_CHARS + 1].rpartition(" ")[0] or query)[:MAX_QUERY_CHARS]


def _coverage(found: SearchReply, near_hits: Sequence[SearchHit]) -> tuple[SourceCoverage, ...]:
    counts = Counter(hit.collection for hit in near_hits)
    answered = [SourceCoverage.of_results(f"documents/{n}", counts[n]) for n in found.searched]
    failed = (
        SourceCoverage.of_failure(
            f"documents/{name}",
            Failure(code=code, message="The collection cannot be searched. Search the others."),
        )
        for name, code in found.failed.items()
    )
    return (*folded("documents", answered), *failed)


def _described(collection: str, found: DocumentSummary | SearchHit) -> ResourceDescriptor:
    text = found.text if isinstance(found, SearchHit) else None
    return ResourceDescriptor(
        uri=uri_of(collection, found.document_id),
        name=found.title[:256] or found.document_id[:256],
        toolset="documents",
        description=_about(collection, found.metadata, text),
        mime_type="text/plain",
        untrusted=True,
    )


def _about(collection: str, metadata: Metadata, text: str | None) -> str:
    details = [str(metadata[key]) for key in ("date", "type") if metadata.get(key)]
    about = f"{collection}: {', '.join(details)}" if details else collection
    if text:
        about += f" … {' '.join(text.split())}"
    if len(about) > _MAX_DESCRIPTION_CHARS:
        about = about[: _MAX_DESCRIPTION_CHARS - 1].rsplit(" ", 1)[0] + "…"
    return about

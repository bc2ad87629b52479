"""Sources of composites: the documents, and the web tools that the caller may use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote

import msgspec
from mcp.shared.exceptions import MCPError

from searchbus_bus import Bus, Directory, Hedge
from searchbus_contracts import Actor, ErrorCode, Failure, Fault, ToolReply
from searchbus_contracts.retrieval import Document, GetRequest, SearchReply, SearchRequest

from ..lists.registry import Registry
from ..lists.visible import visible
from ..requests.tool_calls import ToolCalls, ToolRequest
from .ids import Ids, unknown_id

__all__ = ["Documents", "Fetched", "Hit", "Source", "Web"]

_MAX_QUERY_CHARS = 1000
_SURE_COSINE = 0.62
"""Below it the documents rarely answer the question, and count half beside other sources. One in
eight questions about FOMC documents stays below it, and nine in ten questions about aircraft."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One result.

    Args:
        url: an address that a person can open.
        source: `documents/<collection>` or `web`.
        text: the passage or snippet that was found.
        weight: the confidence of its source, 0 to 1.
    """

    id: str
    title: str
    url: str
    source: str
    text: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Fetched:
    """A whole document or page."""

    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, str] = field(default_factory=dict)


class Source(Protocol):
    """A source of hits and of full texts."""

    name: str

    def serves(self, actor: Actor) -> bool:
        """Whether the source is available and the caller may use it."""

    async def search(self, query: str, limit: int, *, actor: Actor, timeout_s: float) -> list[Hit]:
        """Hits, best first; raises Fault."""

    async def fetch(self, hit_id: str, *, actor: Actor, timeout_s: float) -> Fetched | None:
        """The text behind an id; None for ids of other sources; raises Fault(not_found)."""


class Documents:
    """All collections that the caller may read, through the retrieval service.

    Args:
        directory: shows whether the service is available.
        base_url: the address of this edge, which serves documents without one of their own.
    """

    name = "documents"
    _SERVICE = "retrieval"

    def __init__(self, bus: Bus, ids: Ids, directory: Directory, *, base_url: str) -> None:
        self._bus = bus
        self._ids = ids
        self._directory = directory
        self._base_url = base_url
        self._hedge_search = Hedge()
        self._hedge_get = Hedge()

    def serves(self, actor: Actor) -> bool:
        """See Source."""
        return self._directory.listed(self._SERVICE)

    async def search(self, query: str, limit: int, *, actor: Actor, timeout_s: float) -> list[Hit]:
        """See Source; one hit a document."""
        request = SearchRequest(query=query[:_MAX_QUERY_CHARS], limit=limit, per_document=True)
        reply = await self._hedge_search.run(
            lambda: self._bus.request(
                self._bus.subjects.endpoint(self._SERVICE, "search"), request, SearchReply,
                service=self._SERVICE, timeout_s=timeout_s, actor=actor,
            )
        )  # fmt: skip
        sure = max((hit.cosine for hit in reply.hits), default=0.0) >= _SURE_COSINE
        return [
            Hit(
                id=self._ids.of_document(hit.collection, hit.document_id),
                title=hit.title or hit.document_id,
                url=self._url(hit.url, hit.collection, hit.document_id),
                source=f"documents/{hit.collection}",
                text=hit.text,
                weight=1.0 if sure else 0.5,
            )
            for hit in reply.hits
        ]

    async def fetch(self, hit_id: str, *, actor: Actor, timeout_s: float) -> Fetched | None:
        """See Source."""
        named = self._ids.document(hit_id)
        if named is None:
            return None
        document = await self.get(*named, actor=actor, timeout_s=timeout_s)
        metadata = {
            key: str(value) for key, value in document.metadata.items() if value is not None
        }
        return Fetched(
            id=hit_id,
            title=document.title or document.document_id,
            text=document.text,
            url=self._url(document.url, document.collection, document.document_id),
            metadata={"source": "documents", "collection": document.collection, **metadata},
        )

    async def get(
        self, collection: str, document_id: str, *, actor: Actor, timeout_s: float
    ) -> Document:
        """One document; raises Fault(not_found)."""
        if len(document_id) > 512:
            raise unknown_id()
        request = GetRequest(collection=collection, document_id=document_id)
        return await self._hedge_get.run(
            lambda: self._bus.request(
                self._bus.subjects.endpoint(self._SERVICE, "get"), request, Document,
                service=self._SERVICE, timeout_s=timeout_s, actor=actor,
            )
        )  # fmt: skip

    def _url(self, url: str | None, collection: str, document_id: str) -> str:
        if url and url.startswith(("http://", "https://")):
            return url
        return f"{self._base_url}/documents/{collection}/{quote(document_id, safe='')}"


class Web:
    """The web toolset's search and extraction, for callers that have its roles."""

    name = "web"
    _SEARCH = ("web", "web_search")
    _EXTRACT = ("web", "web_extract_content")

    def __init__(self, calls: ToolCalls, ids: Ids, registry: Registry) -> None:
        self._calls = calls
        self._ids = ids
        self._registry = registry

    def serves(self, actor: Actor) -> bool:
        """See Source."""
        return self._allowed(self._SEARCH, actor) is not None

    async def search(self, query: str, limit: int, *, actor: Actor, timeout_s: float) -> list[Hit]:
        """See Source."""
        arguments = {"query": query[:_MAX_QUERY_CHARS], "maxResults": min(10, limit)}
        found = await self._call(self._SEARCH, arguments, actor, timeout_s)
        return [
            Hit(
                id=self._ids.of_page(row["url"]), title=row["title"] or row["url"], url=row["url"],
                source="web", text=row.get("snippet", ""),
            )
            for row in found["results"]
            if isinstance(row["url"], str) and row["url"]
        ]  # fmt: skip

    async def fetch(self, hit_id: str, *, actor: Actor, timeout_s: float) -> Fetched | None:
        """See Source."""
        url = self._ids.page(hit_id)
        if url is None:
            return None
        found = await self._call(self._EXTRACT, {"urls": [url]}, actor, timeout_s)
        (item,) = found["items"]
        if item["status"] != "ok":
            why = item.get("message") or ""
            raise Fault(
                ErrorCode.UPSTREAM_FAILED,
                f"The page could not be read ({item['status']}). {why}".strip(),
                retryable=item["status"] in ("timeout", "unreachable", "dns"),
            )
        return Fetched(hit_id, url, item["content"], url, {"source": "web"})

    def _allowed(self, tool: tuple[str, str], actor: Actor) -> Any:
        listed = self._registry.view(None).tool_of.get(tool)
        return listed if listed is not None and visible(actor, listed.descriptor) else None

    async def _call(
        self, tool: tuple[str, str], arguments: dict[str, Any], actor: Actor, timeout_s: float
    ) -> Any:
        listed = self._allowed(tool, actor)
        if listed is None:
            raise unknown_id()  # a tool that the caller may not use looks absent
        request = ToolRequest(
            actor,
            self._registry.view(None),
            listed.name,
            arguments,
            timeout_s=timeout_s,
            for_composite=True,
        )
        try:
            reply = (await self._calls.call(request)).reply
        except MCPError as error:
            raise Fault(ErrorCode.UPSTREAM_FAILED, error.error.message) from None
        if reply.is_error:
            raise _fault_of(reply)
        if reply.structured is None:
            raise Fault(ErrorCode.UPSTREAM_FAILED, "The web search failed.")
        return reply.structured


def _fault_of(reply: ToolReply) -> Fault:
    """The failure that an error reply describes; upstream_failed where it describes none."""
    try:
        return Fault.of(msgspec.convert((reply.structured or {}).get("error"), Failure))
    except msgspec.ValidationError:
        return Fault(ErrorCode.UPSTREAM_FAILED, "The web search failed.")

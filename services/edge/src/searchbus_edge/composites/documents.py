"""The documents as a source of the composites."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar
from urllib.parse import quote

from msgspec import UNSET, Struct

from searchbus_bus import Bus, Directory, Hedge, Request
from searchbus_contracts import Actor, ErrorCode, Failure
from searchbus_contracts.coverage import SourceCoverage, folded
from searchbus_contracts.queries import Part
from searchbus_contracts.retrieval import (
    LEAST_RELEVANCE,
    MAX_TOP_K,
    Document,
    GetRequest,
    QuoteReply,
    QuoteRequest,
    SearchHit,
    SearchReply,
    SearchRequest,
)

from .sources import (
    MAX_QUERY_CHARS,
    Anchor,
    FetchedSource,
    Ids,
    Quoted,
    QuoteFound,
    SourceDifference,
    SourceHit,
    SourceHits,
    unknown_id,
)  # fmt: skip

R = TypeVar("R")
_SURE = 0.5
"""Below this relevance the documents rarely answer, and count half beside other sources."""
_WEIGHT_OF_FAR = 0.1
"""The weight of a document without a passage that answers: behind the first pages of the web."""
_SERVICE = "retrieval"
_MAX_ID_CHARS = 512
_DOCUMENT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


def documents_request(
    bus: Bus, verb: str, message: Struct, reply: type[R], timeout_s: float,
    actor: Actor | None = None,
) -> Request[R]:  # fmt: skip
    """A request to an endpoint of the service that has the documents."""
    return Request(
        bus.subjects.endpoint(_SERVICE, verb), message, reply,
        service=_SERVICE, timeout_s=timeout_s, actor=actor,
    )  # fmt: skip


class Documents:
    """All collections that the caller may read, through the retrieval service; documents without an
    address have one below `base_url`."""

    name = "documents"

    def __init__(self, bus: Bus, ids: Ids, directory: Directory, *, base_url: str) -> None:
        self._bus = bus
        self._ids = ids
        self._directory = directory
        self._base_url = base_url
        self._hedge_search = Hedge()
        self._hedge_get = Hedge()

    def absence(self, actor: Actor) -> Failure | None:
        """See Source; collections that the caller may not read look absent."""
        if self._directory.listed(_SERVICE):
            return None
        return Failure(
            code=ErrorCode.UNAVAILABLE,
            message="The documents cannot be searched: no retrieval service is running. "
            "Try again later.",
            retryable=True,
        )

    async def search(
        self, query: str, limit: int, *, passages: int, actor: Actor, timeout_s: float
    ) -> SourceHits:
        """See Source."""
        request = SearchRequest(
            query=query[:MAX_QUERY_CHARS],
            limit=min(MAX_TOP_K, limit * passages),
            per_document=passages == 1,
            # Of a passage that is far as a whole one sentence may answer, which a brief looks for.
            relevant_only=passages == 1,
        )
        asked = documents_request(self._bus, "search", request, SearchReply, timeout_s, actor)
        reply = await self._bus.send_hedged(asked, self._hedge_search)
        failures = {
            f"{self.name}/{name}": Failure(
                code=code,
                message=f"The collection {name} cannot be searched. "
                "Search the others, or ask the operator of this service to check it.",
            )
            for name, code in reply.failed.items()
        }
        hits = self._hits(reply.hits, passages)
        counts = Counter(hit.source for hit in hits if hit.passages[0].sure)
        names = [f"{self.name}/{name}" for name in reply.searched]
        parts = folded(self.name, [SourceCoverage.of_results(name, counts[name]) for name in names])
        return SourceHits(hits[:limit], failures, parts)

    def _hits(self, found: Sequence[SearchHit], passages: int) -> list[SourceHit]:
        """One hit a document, in the order of its best passage."""
        if passages > 1:  # those that only resemble literal passages are beside the point
            found = [hit for hit in found if hit.literal] or found
            found = sorted(found, key=lambda hit: not _is_sure(hit))
        sure = any(hit.literal or (hit.relevance or 0.0) >= _SURE for hit in found)
        of_document: dict[tuple[str, str], list[SearchHit]] = {}
        for hit in found:
            of_document.setdefault((hit.collection, hit.document_id), []).append(hit)
        titles = Counter(hits[0].title for hits in of_document.values())
        return [
            SourceHit(
                id=self._ids.of_document(collection, document_id),
                title=_title(hits[0], alone=titles[hits[0].title] == 1),
                url=self._url(hits[0].url, collection, document_id),
                source=f"{self.name}/{collection}",
                passages=tuple(
                    Quoted(hit.text, _anchor(hit), _is_sure(hit)) for hit in hits[:passages]
                ),
                weight=(1.0 if sure else 0.5) if _is_sure(hits[0]) else _WEIGHT_OF_FAR,
            )
            for (collection, document_id), hits in of_document.items()
        ]

    async def passages(
        self, question: str, hit: SourceHit, *, actor: Actor, timeout_s: float
    ) -> list[Quoted]:
        """See Source; the search has already read them."""
        return list(hit.passages)

    async def fetch(
        self, hit_id: str, *, actor: Actor, timeout_s: float,
        start: int = 0, end: int | None = None, max_tokens: int | None = None,
    ) -> FetchedSource | None:  # fmt: skip
        """See Source; one request gives the text whole."""
        named = self._named(hit_id)
        if named is None:
            return None
        request = GetRequest(collection=named[0], document_id=named[1], start=start, end=end)
        asked = documents_request(self._bus, "get", request, Document, timeout_s, actor)
        document = await self._bus.send_hedged(asked, self._hedge_get)
        metadata = {
            key: str(value) for key, value in document.metadata.items() if value is not None
        }
        return FetchedSource(
            id=hit_id,
            title=document.title or document.document_id,
            text=document.text,
            url=self._url(document.url, document.collection, document.document_id),
            metadata={"source": "documents", "collection": document.collection, **metadata},
            start=start,
            length=document.chars,
            content_hash=document.content_hash,
        )

    async def quote(
        self, hit_id: str, quote: str, *, actor: Actor, timeout_s: float
    ) -> QuoteFound | None:
        """See Source; the retrieval service compares, since it has the text."""
        named = self._named(hit_id)
        if named is None:
            return None
        collection, document_id = named
        request = QuoteRequest(collection=collection, document_id=document_id, quote=quote)
        asked = documents_request(self._bus, "quote", request, QuoteReply, timeout_s, actor)
        found = await self._bus.send(asked)
        there = found.match != "none"
        return QuoteFound(
            match=found.match,
            id=str(Part(hit_id, found.start, found.end)) if there else hit_id,
            title=found.title or found.document_id,
            url=self._url(found.url, found.collection, found.document_id),
            start=found.start if there else UNSET,
            end=found.end if there else UNSET,
            text=found.text,
            similarity=found.similarity,
            differences=[SourceDifference(d.quote, d.document) for d in found.differences],
            content_hash=found.content_hash,
        )

    def _named(self, hit_id: str) -> tuple[str | None, str] | None:
        """(collection, document id); None for the collection of a bare id, as search_fomc has."""
        if _DOCUMENT_ID.fullmatch(hit_id):
            return None, hit_id
        named = self._ids.document(hit_id)
        if named is not None and len(named[1]) > _MAX_ID_CHARS:
            raise unknown_id()
        return named

    def _url(self, url: str | None, collection: str, document_id: str) -> str:
        if url and url.startswith(("http://", "https://")):
            return url
        return f"{self._base_url}/documents/{collection}/{quote(document_id, safe='')}"


def _title(hit: SearchHit, *, alone: bool) -> str:
    """The document's; where others have the same one, with the path of its file."""
    path = hit.metadata.get("path")
    return f"{hit.title or hit.document_id}{'' if alone or not path else f' ({path})'}"


def _is_sure(hit: SearchHit) -> bool:
    return hit.literal or (hit.relevance or 0.0) >= LEAST_RELEVANCE


def _anchor(hit: SearchHit) -> Anchor | None:
    if hit.start is None or hit.end is None:
        return None
    return Anchor(hit.start, hit.end, hit.content_hash)

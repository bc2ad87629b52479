"""Where the passages of a search stand in their documents.

Each stored passage has `start`, `end` and its document's hash. Those that an earlier release
stored have not: they are found by their text in their document, once, and kept in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
from cachetools import LRUCache

from searchbus_contracts.retrieval import Document, SearchHit

from .reading import DocumentReader

__all__ = ["Anchors"]

_MAX_PASSAGES = 50_000
_Anchor = tuple[int, int, str]


class Anchors:
    """Completes the anchors of hits."""

    def __init__(self, reader: DocumentReader) -> None:
        self._reader = reader
        # A chunk's id contains its document's revision: what is found stays true.
        self._found: LRUCache[tuple[str, str], _Anchor] = LRUCache(_MAX_PASSAGES)

    async def complete(self, collection: str, hits: Sequence[SearchHit]) -> list[SearchHit]:
        """The hits with `start`, `end` and `content_hash`.

        They stay None for a passage of an earlier release whose document was replaced meanwhile.
        """
        bare = [hit for hit in hits if hit.start is None]
        unknown = [hit for hit in bare if (collection, hit.chunk_id) not in self._found]
        for document_id in dict.fromkeys(hit.document_id for hit in unknown):
            document = await self._reader.read(collection, document_id)
            if document is not None:
                own = [hit for hit in unknown if hit.document_id == document_id]
                self._found.update(await asyncio.to_thread(_locate, collection, document, own))
        return [self._anchored(collection, hit) if hit.start is None else hit for hit in hits]

    def _anchored(self, collection: str, hit: SearchHit) -> SearchHit:
        found = self._found.get((collection, hit.chunk_id))
        if found is None:
            return hit
        start, end, content_hash = found
        return msgspec.structs.replace(hit, start=start, end=end, content_hash=content_hash)


def _locate(
    collection: str, document: Document, hits: Sequence[SearchHit]
) -> dict[tuple[str, str], _Anchor]:
    """(collection, chunk id) → anchor; equal passages of a document have the first one's."""
    found: dict[tuple[str, str], _Anchor] = {}
    for hit in hits:
        start = document.text.find(hit.text)
        if start >= 0 and document.content_hash is not None:
            end = start + len(hit.text)
            found[collection, hit.chunk_id] = (start, end, document.content_hash)
    return found

"""What readers yield, and how a text becomes a document."""

from __future__ import annotations

from dataclasses import dataclass

from searchbus_contracts.document_ids import document_id
from searchbus_contracts.retrieval import MAX_DOCUMENT_BYTES, Metadata, NewDocument

from ..chunking import cut

__all__ = ["Item", "make_document"]


@dataclass(frozen=True, slots=True)
class Item:
    """A document, or the problem that prevented it; `origin` is the place (file, line)."""

    origin: str
    document: NewDocument | None = None
    problem: str | None = None


def make_document(
    origin: str,
    *,
    collection: str,
    source_id: str,
    title: str,
    text: str,
    url: str | None = None,
    metadata: Metadata | None = None,
    markdown: bool = False,
) -> Item:
    """Cut a text into a document; an empty or too large text gives an item with a problem."""
    # A lone surrogate cannot be encoded, so it could be neither stored nor sent.
    text = text.encode("utf-8", "replace").decode()
    if not text.strip():
        return Item(origin, problem="it contains no text")
    if len(text.encode()) > MAX_DOCUMENT_BYTES:
        limit = MAX_DOCUMENT_BYTES // 1024 // 1024
        return Item(origin, problem=f"its text is larger than {limit} MiB; split it")
    document = NewDocument(
        document_id=document_id(collection, source_id),
        title=" ".join(title.split())[:1000] or source_id[:1000],
        text=text,
        chunks=tuple(cut(text, markdown=markdown)),
        url=url,
        metadata=metadata or {},
    )
    return Item(origin, document=document)

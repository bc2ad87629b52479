"""Cuts a text into the chunks of a document: see searchbus_passages.chunking."""

from __future__ import annotations

from searchbus_contracts.ingest import Chunk
from searchbus_passages import chunking


def cut(text: str, *, markdown: bool = False, code_suffix: str | None = None) -> list[Chunk]:
    """Cut a text, of code by the suffix of its file; one without a visible character gives no
    chunks."""
    pieces = chunking.cut(text, markdown=markdown, code_suffix=code_suffix)
    return [Chunk(start=p.start, end=p.end, section=p.section) for p in pieces]

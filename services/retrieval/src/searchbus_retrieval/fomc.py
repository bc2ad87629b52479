"""The FOMC corpus: its collection, and the names of its fields."""

from __future__ import annotations

from typing import Any

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.retrieval import SearchHit

from .explaining import Answer
from .library import Library

__all__ = ["ALIASES", "COLLECTION", "answer", "search"]

COLLECTION = "fomc"
ALIASES = {
    "document_name": "title",
    "document_date": "date",
    "document_type": "type",
    "section_header": "section",
    "source_url": "url",
}
"""Names of the tool → names of the collection."""


async def search(
    library: Library, query: str, top_k: int, where: dict[str, Any] | None
) -> list[SearchHit]:
    """The hits of `answer`."""
    return (await answer(library, query, top_k, where)).hits


async def answer(
    library: Library,
    query: str,
    top_k: int,
    where: dict[str, Any] | None,
    *,
    explain: bool = False,
) -> Answer:
    """Search the corpus, as every search of its collection does.

    Raises:
        Fault: invalid_query, invalid_argument, empty_corpus.
    """
    try:
        found = await library.searcher.answer(
            COLLECTION, query, limit=top_k, where=where, aliases=ALIASES, explain=explain
        )
    except Fault as fault:
        if fault.code != ErrorCode.NOT_FOUND:
            raise
    else:
        if found.hits or await library.count_documents(COLLECTION):
            return found
    raise Fault(
        ErrorCode.EMPTY_CORPUS,
        "No FOMC documents are ingested yet. Run `searchbus ingest fomc --collection fomc`, "
        "or ingest a JSONL file of them.",
    )

"""The FOMC corpus: its collection, its field names, and what its questions give away."""

from __future__ import annotations

import re
from typing import Any

from searchbus_contracts import ErrorCode, Fault
from searchbus_vectors import AnyOf, DateRange, Equals

from .dates import mentioned_periods
from .library import Library, check_query
from .ranking import Preference

__all__ = ["ALIASES", "COLLECTION", "preferences", "search"]

COLLECTION = "fomc"
ALIASES = {
    "document_name": "title",
    "document_date": "date",
    "document_type": "type",
    "section_header": "section",
    "source_url": "url",
}
"""Names of the tool → names of the collection."""

DATE_LIFT = 0.6
TYPE_LIFT = 0.4


def preferences(query: str) -> list[Preference]:
    """What the question says about the documents that it means."""
    found = []
    periods = mentioned_periods(query)
    if periods:
        ranges = tuple(
            DateRange("m.date", gte=p.start.isoformat(), lt=p.end.isoformat()) for p in periods
        )
        found.append(Preference(AnyOf(ranges), DATE_LIFT))
    kinds = {
        kind
        for kind, pattern in (
            ("minutes", r"\bminutes\b"),
            ("statement", r"\b(?:policy |press |post-meeting |fomc )?statements?\b"),
        )
        if re.search(pattern, query, re.I)
    }
    if len(kinds) == 1:
        found.append(Preference(Equals("m.type", kinds.pop()), TYPE_LIFT))
    return found


async def search(
    library: Library, query: str, top_k: int, where: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """The results of `search_fomc`, as the tool's contract shows them.

    Raises:
        Fault: invalid_query, invalid_argument, empty_corpus.
    """
    check_query(query)
    if await library.count_documents(COLLECTION) == 0:
        raise Fault(
            ErrorCode.EMPTY_CORPUS,
            "No FOMC documents are ingested yet. Run `searchbus ingest fomc --collection fomc`, "
            "or ingest a JSONL file of them.",
        )
    hits = await library.search(
        COLLECTION,
        query,
        limit=top_k,
        where=where,
        prefer=preferences(query),
        aliases=ALIASES,
    )
    return [
        {
            "chunk_id": hit.chunk_id,
            "document_name": hit.title,
            "document_date": str(hit.metadata.get("date") or ""),
            "document_id": hit.document_id,
            "section_header": hit.section,
            "chunk_text": hit.text,
            "relevance_score": round(hit.cosine, 4),
        }
        for hit in hits
    ]

"""The FOMC corpus: its collection, the names of its fields, and what a question says about both."""

from __future__ import annotations

import re
from typing import Any

from searchbus_contracts import ErrorCode, Fault, check_query
from searchbus_contracts.retrieval import MAX_QUERY_CHARS, SearchHit
from searchbus_vectors import AnyOf, DateRange, Equals

from .dates import mentioned_periods
from .library import Library
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
    """The documents that the question seems to mean, by date and by type."""
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
) -> list[SearchHit]:
    """Search the corpus; documents that the question seems to mean come first.

    Raises:
        Fault: invalid_query, invalid_argument, empty_corpus.
    """
    query = check_query(query, max_chars=MAX_QUERY_CHARS)
    if await library.count_documents(COLLECTION) == 0:
        raise Fault(
            ErrorCode.EMPTY_CORPUS,
            "No FOMC documents are ingested yet. Run `searchbus ingest fomc --collection fomc`, "
            "or ingest a JSONL file of them.",
        )
    return await library.search(
        COLLECTION,
        query,
        limit=top_k,
        where=where,
        prefer=preferences(query),
        aliases=ALIASES,
    )

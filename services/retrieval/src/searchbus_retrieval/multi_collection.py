"""One query to several collections: one list of hits, and the collections that failed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.retrieval import SearchHit, SearchReply

from .library import Library

__all__ = ["search_collections"]


async def search_collections(
    library: Library,
    collections: Sequence[str],
    query: str,
    *,
    limit: int,
    where: Mapping[str, Any] | None = None,
    per_document: bool = False,
) -> SearchReply:
    """Search collections concurrently; an empty list means all of them.

    Raises:
        Fault: invalid_query; the failure of the only collection; invalid_argument where every
            one of several failed.
    """
    names = tuple(collections) or tuple(info.name for info in await library.list_collections())
    outcomes = await asyncio.gather(
        *(
            library.search(name, query, limit=limit, where=where, per_document=per_document)
            for name in names
        ),
        return_exceptions=True,
    )
    hits: list[SearchHit] = []
    failed: dict[str, str] = {}
    for name, outcome in zip(names, outcomes, strict=True):
        if isinstance(outcome, Fault):
            if len(names) == 1 or outcome.code == ErrorCode.INVALID_QUERY:
                raise outcome
            failed[name] = outcome.code
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            hits.extend(outcome)
    if names and len(failed) == len(names):
        raise Fault(ErrorCode.INVALID_ARGUMENT, "No collection could be searched that way.")
    # Fused scores are relative to their own collection; the cosine is comparable across them.
    if len(names) > 1:
        hits.sort(key=lambda hit: (-(0.5 * hit.score + hit.cosine), hit.chunk_id))
    return SearchReply(hits=tuple(hits[:limit]), failed=failed)

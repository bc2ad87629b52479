"""One query to several collections: one list of hits, and the collections that failed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.retrieval import LeftOut, SearchHit, SearchReply

from .explaining import MAX_LEFT_OUT, Answer, left_out
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
    explain: bool = False,
) -> SearchReply:
    """Search collections concurrently; an empty list means all of them.

    Raises:
        Fault: invalid_query; if every collection failed, the first one's failure.
    """
    names = tuple(collections) or tuple(await library.names())
    outcomes = await asyncio.gather(
        *(
            library.searcher.answer(
                name, query, limit=limit, where=where, per_document=per_document, explain=explain
            )
            for name in names
        ),
        return_exceptions=True,
    )
    hits: list[SearchHit] = []
    answers: dict[str, Answer] = {}
    faults: dict[str, Fault] = {}
    for name, outcome in zip(names, outcomes, strict=True):
        if isinstance(outcome, Fault):
            if outcome.code == ErrorCode.INVALID_QUERY:
                raise outcome
            faults[name] = outcome
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            answers[name] = outcome
            hits += outcome.hits
    if names and len(faults) == len(names):
        raise faults[names[0]]
    # Fused scores are relative to their own collection; the cosine is comparable across them.
    if len(names) > 1:
        hits.sort(key=lambda hit: (-(0.5 * hit.score + hit.cosine), hit.chunk_id))
    return SearchReply(
        hits=tuple(hits[:limit]),
        failed={name: fault.code for name, fault in faults.items()},
        searched=tuple(answers),
        readings={name: a.reading for name, a in answers.items() if a.reading is not None},
        left_out=_left_out(answers.values(), hits[limit:]) if explain else (),
    )


def _left_out(answers: Iterable[Answer], beyond: Sequence[SearchHit]) -> tuple[LeftOut, ...]:
    """What the collections left out, and the hits behind the last one of all collections."""
    found = [*left_out(beyond, "limit"), *(entry for a in answers for entry in a.left_out)]
    found.sort(key=lambda entry: (-entry.score, entry.chunk_id))
    return tuple(found[:MAX_LEFT_OUT])

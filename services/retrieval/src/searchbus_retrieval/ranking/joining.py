"""Joins passages that stand side by side in a document, of which both were found.

An answer may begin in one and end in the next ("In a related action, …"), and the words of a
question that is about both are in each in part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from searchbus_contracts.retrieval import SearchHit

_LOOKED_AT = 2
"""Times the wanted number of hits: those behind them are beside the point more often than not."""
_MOST_CHARS = 2_200
"""About two passages."""
_GAP_CHARS = 3
"""White space between passages."""


@dataclass(slots=True)
class Joined:
    """A hit, as near as the nearest of its passage and those beside it, and the place of all."""

    hit: SearchHit
    start: int | None
    end: int | None

    def takes(self, other: SearchHit) -> bool:
        """Take a passage right before or behind this one; False where it does not fit."""
        if self.start is None or self.end is None or other.start is None or other.end is None:
            return False
        before, behind = self.start - other.end, other.start - self.end
        start, end = min(self.start, other.start), max(self.end, other.end)
        if (
            other.document_id != self.hit.document_id
            or not (0 <= before <= _GAP_CHARS or 0 <= behind <= _GAP_CHARS)
            or end - start > _MOST_CHARS
        ):
            return False
        self.start, self.end = start, end
        self.hit = msgspec.structs.replace(
            self.hit,
            cosine=max(self.hit.cosine, other.cosine),
            literal=self.hit.literal or other.literal,
        )
        return True


def looked_at(limit: int) -> int:
    """How many hits `join` should get for so many."""
    return _LOOKED_AT * limit


def join(hits: Sequence[SearchHit], limit: int) -> tuple[list[Joined], list[SearchHit]]:
    """The first hits, each with its neighbours among all; and the hits that are left over."""
    found: list[Joined] = []
    rest = []
    for hit in hits:
        if any(one.takes(hit) for one in found):
            continue
        if len(found) < limit:
            found.append(Joined(hit, hit.start, hit.end))
        else:
            rest.append(hit)
    return found, rest

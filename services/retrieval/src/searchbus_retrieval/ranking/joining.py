"""Joins passages that stand side by side in a section of a document, of which both were found.

An answer may begin in one and end in the next ("In a related action, …"), and the words of a
question that is about both are in each in part.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec

from searchbus_contracts.retrieval import SearchHit

LOOKED_AT = 2
"""Times the wanted number of hits: those behind them are beside the point more often than not."""
_MOST_CHARS = 2_200
"""About two passages."""
_GAP_CHARS = 3
"""White space between passages."""


@dataclass(slots=True)
class Joined:
    """A hit, the one beside it that it took, and the place of both.

    Attributes:
        parts: the hits as they were found; the better one first.
    """

    parts: list[SearchHit]
    start: int | None
    end: int | None

    @property
    def best(self) -> SearchHit:
        """The better one."""
        return self.parts[0]

    @property
    def span(self) -> tuple[int, int] | None:
        """Where the text of both stands; None for a hit alone."""
        if len(self.parts) == 1 or self.start is None or self.end is None:
            return None
        return self.start, self.end

    def takes(self, other: SearchHit) -> bool:
        """Take a passage of the section right before or behind this one; False where it does not
        fit.

        It takes one: of the hits that are looked at, as many as are wanted are left.
        """
        # Hardly any two are of one document.
        if (other.document_id, other.section) != (self.best.document_id, self.best.section):
            return False
        if self.start is None or self.end is None or other.start is None or other.end is None:
            return False
        before, behind = self.start - other.end, other.start - self.end
        start, end = min(self.start, other.start), max(self.end, other.end)
        if (
            len(self.parts) > 1
            or not (0 <= before <= _GAP_CHARS or 0 <= behind <= _GAP_CHARS)
            or end - start > _MOST_CHARS
        ):
            return False
        self.start, self.end = start, end
        self.parts.append(other)
        return True

    def with_text(self, text: str | None) -> list[SearchHit]:
        """One hit with the text of both, as near as the nearer; without one, each as it was."""
        if text is None:
            return self.parts
        return [
            msgspec.structs.replace(
                self.best,
                text=text,
                start=self.start,
                end=self.end,
                cosine=max(hit.cosine for hit in self.parts),
                literal=any(hit.literal for hit in self.parts),
            )
        ]


def join(hits: Sequence[SearchHit], limit: int) -> tuple[list[Joined], list[SearchHit]]:
    """The first hits, each with a neighbour among all; and the hits that are left over."""
    found: list[Joined] = []
    rest = []
    for hit in hits:
        if any(one.takes(hit) for one in found):
            continue
        if len(found) < limit:
            found.append(Joined([hit], hit.start, hit.end))
        else:
            rest.append(hit)
    return found, rest


def holding(joined: Sequence[Joined], ids: Collection[str]) -> set[str]:
    """The ids of the hits of which a part is one of these passages."""
    return {one.best.chunk_id for one in joined if any(hit.chunk_id in ids for hit in one.parts)}

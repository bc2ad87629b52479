"""A question to one collection, read once: its phrase, quantities, dates, types and order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from searchbus_contracts.retrieval import FieldType
from searchbus_vectors import CANDIDATES, Hit

from .chronology import order_of
from .intent import preferences
from .literal import Phrase
from .profiles import Profile
from .quantities import Quantities

__all__ = ["Question"]

LITERAL_LIFT = 1.0
"""As much as the best score without any lift."""
QUANTITIES_LIFT = 0.3
"""Of a passage with every quantity of the query."""
_MORE_CANDIDATES = 200
"""Where dates or numbers decide, words and meaning put the right passage further down."""


class Question:
    """What the ranking takes from a query.

    Args:
        query: as the caller wrote it.
        profile: of the collection.
        fields: of the collection; what the profile says of others does not count.
    """

    def __init__(self, query: str, profile: Profile, fields: Mapping[str, FieldType]) -> None:
        self.query = query
        self.preferences = preferences(profile, fields, query)
        self._phrase = Phrase(query)
        self._quantities = Quantities(query)
        self._order = order_of(profile, fields, query)

    @property
    def spelled(self) -> str:
        """The query with its fractions in the usual spelling, so that they weigh more as words."""
        return " ".join((self.query, *self._quantities.spellings))

    @property
    def looks_far(self) -> bool:
        """Whether the right passage may be far down each ranking."""
        return self._order is not None or bool(self._quantities)

    @property
    def candidates(self) -> int:
        """Passages that each search should contribute."""
        return _MORE_CANDIDATES if self.looks_far else CANDIDATES

    def is_literal(self, hit: Hit) -> bool:
        """Whether the query stands in the passage word for word."""
        return self._phrase.stands_in(hit.payload["text"], hit.payload["title"])

    @property
    def order(self) -> Literal["first", "latest"] | None:
        """Which document by date the question asks for."""
        return None if self._order is None else self._order.wanted

    def lifts(self, hit: Hit) -> dict[str, float]:
        """What the passage's own text adds to its score, by reason."""
        texts = hit.payload["title"], hit.payload["text"]
        return {
            "literal": LITERAL_LIFT if self.is_literal(hit) else 0.0,
            "quantities": QUANTITIES_LIFT * self._quantities.share_in(*texts),
        }

    def lift(self, hit: Hit) -> float:
        """The sum of its `lifts`."""
        return sum(self.lifts(hit).values())

    def ordered(self, ranked: Sequence[Hit]) -> list[Hit]:
        """The hits with the first or the latest in front, where the question asks for it."""
        return list(ranked) if self._order is None else self._order.apply(ranked, self._quantities)

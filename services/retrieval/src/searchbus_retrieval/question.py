"""A question to one collection, read once: phrase, quantities, names, dates, types, order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from searchbus_contracts.retrieval import FieldType
from searchbus_vectors import Hit

from .chronology import order_of
from .dates import mentioned_periods
from .directions import Directions
from .events import choose_within_events, raise_earliest
from .intent import preferences, wanted_type
from .literal import Phrase
from .names import LEAST_RARITY, has_word, name_words, quoted
from .profiles import Profile
from .quantities import Quantities
from .ranking import in_order
from .synonyms import Synonyms

__all__ = ["Question"]

LITERAL_LIFT = 1.0
"""As much as the best score without any lift."""
QUANTITIES_LIFT = 0.3
"""Of a passage with every quantity of the query, and as much again if its document has them all."""
NAMES_LIFT = 0.4
"""Of a passage with every rare name of the query."""
SPREAD = 0.94
"""What is left of a passage's score for each better passage of its document."""
_CANDIDATES, _MORE_CANDIDATES = 60, 100
"""More where the order of dates decides: words and meaning put the right passage further down."""


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
        self._profile = profile
        self._wanted = wanted_type(profile, fields, query)
        self.date_field = profile.date_field if profile.date_field in fields else None
        self._has_events = profile.date_field in fields
        self._has_dates = self._has_events and bool(mentioned_periods(query))
        self._phrase = Phrase(query)
        self._quoted = quoted(query)
        self._quantities = Quantities(query)
        self._directions = Directions(profile.opposites, query)
        self._order = order_of(profile, fields, query)
        # The first that mentions a word is asked for by that word.
        self.synonyms = Synonyms(profile.synonyms if self._order is None else (), query)
        self._words = [*name_words(query), *(self._order.words if self._order else ())]
        self._names: list[str] = []
        self._rarity: Mapping[str, float] = {}
        self._shares: dict[str, float] = {}

    @property
    def spelled(self) -> str:
        """The query with its fractions in the usual spelling, so that they weigh more as words."""
        return " ".join((self.query, *self._quantities.spellings))

    @property
    def looks_far(self) -> bool:
        """Whether more passages should be read: what they say decides about their order."""
        return self._order is not None or bool(self._quantities)

    @property
    def candidates(self) -> int:
        """Passages that each search should contribute."""
        return _CANDIDATES if self._order is None else _MORE_CANDIDATES

    @property
    def weighed_words(self) -> list[str]:
        """The words of which the ranking needs to know how rare they are."""
        return self._words

    def weigh(self, rarity: Mapping[str, float]) -> None:
        """Take the rarity of `weighed_words`: the best score that any passage has for each."""
        self._rarity = rarity
        names = name_words(self.query)
        self._names = [name for name in names if rarity.get(name, 0.0) >= LEAST_RARITY]

    def is_literal(self, hit: Hit) -> bool:
        """Whether the query, or every phrase that it quotes, stands in it word for word."""
        texts = hit.payload["text"], hit.payload["title"]
        if self._quoted and all(phrase.stands_in(*texts) for phrase in self._quoted):
            return True
        return self._phrase.stands_in(*texts)

    @property
    def order(self) -> Literal["first", "latest"] | None:
        """Which document by date the question asks for."""
        return None if self._order is None else self._order.wanted

    @property
    def asks_in_order(self) -> bool:
        """Whether it asks for the first or the latest of a type that it names."""
        return self._order is not None and self._wanted is not None and self._wanted.named

    def lifts(self, hit: Hit) -> dict[str, float]:
        """What the passage's own text adds to its score, by reason."""
        return {
            "literal": LITERAL_LIFT if self.is_literal(hit) else 0.0,
            "names": NAMES_LIFT * self._share_of_names(hit),
            "quantities": QUANTITIES_LIFT * self._share_of_quantities(hit),
        }

    def lift(self, hit: Hit) -> float:
        """The sum of its `lifts`."""
        return sum(self.lifts(hit).values())

    def ordered(self, ranked: Sequence[Hit]) -> list[Hit]:
        """The hits in the order that documents, types, events and dates give them."""
        shares = {hit.id: self._share_of_quantities(hit) for hit in ranked}
        hits = self._by_document(ranked, shares) if self._quantities else list(ranked)
        if self._wanted is not None and self._has_events:
            hits = choose_within_events(hits, self._profile, self._wanted)
            repeats = self._profile.types[self._wanted.value].repeats
            if self._quantities and repeats and not self._has_dates and self._order is None:
                hits = raise_earliest(hits, self._profile, self._wanted, shares)
        if self._order is not None:
            hits = self._order.apply(hits, shares, self._rarity)
        return _spread(hits)

    def _share_of_names(self, hit: Hit) -> float:
        if not self._names:
            return 0.0
        text = f"{hit.payload['title']} {hit.payload['text']}"
        there = sum(self._rarity[name] for name in self._names if has_word(text, name))
        return there / sum(self._rarity[name] for name in self._names)

    def _share_of_quantities(self, hit: Hit) -> float:
        if not self._quantities:
            return 0.0
        if hit.id not in self._shares:
            counts = self._directions.agree if self._directions else None
            texts = hit.payload["title"], hit.payload["text"]
            self._shares[hit.id] = self._quantities.share_in(*texts, counts=counts)
        return self._shares[hit.id]

    def _by_document(self, ranked: Sequence[Hit], shares: Mapping[str, float]) -> list[Hit]:
        """Every passage of a document gains by its passage with the most quantities."""
        most: dict[str, float] = {}
        for hit in ranked:
            key = hit.payload["document_id"]
            most[key] = max(most.get(key, 0.0), shares[hit.id])
        return in_order(
            hit.scored(hit.score + QUANTITIES_LIFT * most[hit.payload["document_id"]])
            if most[hit.payload["document_id"]]
            else hit
            for hit in ranked
        )


def _spread(hits: Sequence[Hit]) -> list[Hit]:
    """Lower the second passage of a document a little, the third more, so that others follow."""
    passages: Counter[str] = Counter()
    lowered = []
    for hit in hits:
        document = hit.payload["document_id"]
        before = passages[document]
        passages[document] += 1
        lowered.append(hit.scored(hit.score * SPREAD**before) if before else hit)
    return sorted(lowered, key=lambda hit: -hit.score)  # equal ones stay in their order

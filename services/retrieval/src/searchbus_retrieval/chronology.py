"""The first or the latest document that says something: "when was … first mentioned?"."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from searchbus_contracts.retrieval import FieldType
from searchbus_vectors import Hit, terms

from .profiles import Profile
from .quantities import Quantities

__all__ = ["Order", "order_of"]

_ORDER_LIFT = 1.0
"""Of the first by date, above the best match; half of it for the second, a third for the next."""
_BEHIND_BEST = 0.4
_COSINE_BEHIND_BEST = 0.12
"""A passage further behind the best does not take part in the order of dates."""
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_FIRST = re.compile(
    rf"\b(?:first|earliest)\b(?!\s+(?:quarter|half|day|week|month|of\s+(?:{_MONTHS})))", re.I
)
_LATEST = re.compile(
    r"\b(?:latest|most recent|newest"
    rf"|last(?!\s+(?:year|month|week|quarter|half|decade|time|{_MONTHS})))\b",
    re.I,
)
_ASKING = frozenset(
    terms("first earliest latest most recent newest last time when mention speak say says appear")
)
"""Words of such questions that say nothing of the passage."""


@dataclass(frozen=True, slots=True)
class Order:
    """The question wants the first or the latest document that says something.

    Args:
        words: terms that the passage must have, as far as any passage has them.
    """

    date_field: str
    wanted: Literal["first", "latest"]
    words: frozenset[str]

    def apply(self, ranked: Sequence[Hit], quantities: Quantities) -> list[Hit]:
        """Raise the hits that match best, in the order of their dates.

        Args:
            quantities: of the question; a hit should have them all, too.
        """
        if not ranked:
            return []
        floor = ranked[0].score - _BEHIND_BEST
        cosine_floor = max(hit.cosine for hit in ranked) - _COSINE_BEHIND_BEST
        matching = [
            hit
            for hit in ranked
            if hit.score >= floor and hit.cosine >= cosine_floor and self._date(hit)
        ]
        shares = {hit.id: quantities.share_in(*_texts(hit)) for hit in matching}
        whole = max(shares.values(), default=0.0)
        matching = [hit for hit in matching if shares[hit.id] == whole]
        counts = {hit.id: self._count(hit) for hit in matching}
        most = max(counts.values(), default=0)
        chosen = [hit for hit in matching if counts[hit.id] == most]
        dates = sorted({self._date(hit) for hit in chosen}, reverse=self.wanted == "latest")
        places = {date: place for place, date in enumerate(dates)}
        order = {hit.id: places[self._date(hit)] for hit in chosen}
        best = ranked[0].score
        lifted = [
            replace(hit, score=best + _ORDER_LIFT / (1 + order[hit.id])) if hit.id in order else hit
            for hit in ranked
        ]
        # The sort is stable: passages of one date stay in their order.
        return sorted(lifted, key=lambda hit: -hit.score)

    def _count(self, hit: Hit) -> int:
        return len(self.words & set(terms(" ".join(_texts(hit)))))

    def _date(self, hit: Hit) -> str:
        return str((hit.payload.get("m") or {}).get(self.date_field) or "")


def order_of(profile: Profile, fields: Mapping[str, FieldType], question: str) -> Order | None:
    """The order that the question asks for, if it does and the documents have dates."""
    if profile.date_field is None or profile.date_field not in fields:
        return None
    first, latest = _FIRST.search(question), _LATEST.search(question)
    if bool(first) == bool(latest):
        return None
    rest = question
    for pattern in profile.named.values():
        rest = pattern.sub(" ", rest)
    words = frozenset(term for term in terms(rest) if not term.isdecimal()) - _ASKING
    return Order(profile.date_field, "first" if first else "latest", words)


def _texts(hit: Hit) -> tuple[str, str]:
    return hit.payload["title"], hit.payload["text"]

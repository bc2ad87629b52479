"""Ranks the documents that a question seems to mean above others that match it.

A date in the question ("in March 2022") is not a filter, because a later document may have the
answer. Each preference has a search of its own, so that its documents are among the candidates,
and raises the score of what it found. A passage in which the query stands word for word comes
before all others: names say little to the embedding model.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from searchbus_vectors import Filter, Hit, Match

__all__ = ["Preference", "in_order", "metadata", "rank", "worth_reading"]

_WORTH, _WORTH_FAR = (40, 20), (60, 60)
"""By score, and by words."""


@dataclass(frozen=True, slots=True)
class Preference:
    """Documents that the question seems to mean, and what that adds to their score (0..1).

    Attributes:
        name: what it is by, for explanations: date or type.
        instead: what it means where no document is so.
    """

    condition: Filter
    lift: float
    name: str = ""
    instead: Preference | None = None


def rank(
    overall: Sequence[Match],
    preferred: Sequence[tuple[Preference, Sequence[Match]]],
    payloads: Mapping[str, dict[str, Any]],
    lift: Callable[[Hit], float],
) -> list[Hit]:
    """Merge one search over all with one for each preference; best first, ties by id.

    A hit of several preferences gets the lift of each.

    Args:
        payloads: id → payload, of the matches that are to be ranked.
        lift: what a hit's own text adds to its score.
    """
    best: dict[str, Match] = {match.id: match for match in overall}
    lifts: dict[str, float] = {}
    for preference, matches in preferred:
        for match in matches:
            known = best.get(match.id)
            if known is None or known.score < match.score:
                best[match.id] = match
            lifts[match.id] = lifts.get(match.id, 0.0) + preference.lift
    ranked = []
    for key, payload in payloads.items():
        match = best[key]
        hit = Hit(key, match.score + lifts.get(key, 0.0), match.cosine, payload)
        raised = lift(hit)
        ranked.append(hit.scored(hit.score + raised) if raised else hit)
    return in_order(ranked)


def in_order(hits: Iterable[Hit]) -> list[Hit]:
    """Best first, ties by id."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))


def metadata(hit: Hit, field: str | None) -> str:
    """A metadata value of the hit's document as text; empty without it."""
    return str((hit.payload.get("m") or {}).get(field) or "")


def worth_reading(
    overall: Sequence[Match],
    preferred: Sequence[Sequence[Match]],
    limit: int,
    *,
    far: bool,
    quotation: bool = False,
) -> list[str]:
    """Ids of the matches whose payload is worth its time.

    Those with the best score of each search, and those with the best words: among these are the
    passages in which the query stands word for word.

    Args:
        limit: of the hits wanted.
        far: whether what the passages say may turn the order round, so that more are read.
        quotation: whether the query may be one, so that more are read that have its words.
    """
    scores, words = _WORTH_FAR if far else _WORTH
    most = max(limit, scores)
    chosen = [*overall[:most], *_best_words(overall, _WORTH_FAR[1] if quotation else words)]
    for matches in preferred:
        chosen += [*matches[:most], *_best_words(matches, words)] if far else matches[:most]
    return list(dict.fromkeys(match.id for match in chosen))


def _best_words(matches: Sequence[Match], count: int) -> list[Match]:
    return heapq.nlargest(count, matches, key=lambda match: match.words)

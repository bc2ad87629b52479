"""Ranks the documents that a question seems to mean above others that match it.

A date in the question ("in March 2022") is not a filter, because a later document may have the
answer. Each preference has a search of its own, so that its documents are among the candidates,
and raises the score of what it found. A passage in which the query stands word for word comes
before all others: names say little to the embedding model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from searchbus_vectors import Filter, Hit, Match

__all__ = ["Preference", "in_order", "metadata", "rank", "worth_reading"]

_WORTH_BY_SCORE, _WORTH_BY_WORDS = 60, 30


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
        ranked.append(Hit(key, hit.score + lift(hit), hit.cosine, payload))
    return in_order(ranked)


def in_order(hits: Iterable[Hit]) -> list[Hit]:
    """Best first, ties by id."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.id))


def metadata(hit: Hit, field: str | None) -> str:
    """A metadata value of the hit's document as text; empty without it."""
    return str((hit.payload.get("m") or {}).get(field) or "")


def worth_reading(
    overall: Sequence[Match], preferred: Sequence[Sequence[Match]], limit: int | None
) -> list[str]:
    """Ids of the matches whose payload is worth its time; without a limit, of all.

    Those with the best score of each search, and those with the best words of the first: among
    these are the passages in which the query stands word for word.
    """
    if limit is None:
        return list(
            dict.fromkeys(match.id for matches in (overall, *preferred) for match in matches)
        )
    words = sorted(overall, key=lambda match: -match.words)[:_WORTH_BY_WORDS]
    best = [match for matches in preferred for match in matches[: max(limit, _WORTH_BY_WORDS)]]
    chosen = (*overall[: max(limit, _WORTH_BY_SCORE)], *words, *best)
    return list(dict.fromkeys(match.id for match in chosen))

"""Of several documents on one event, or of several that say the same, the one that is meant.

Minutes and statement of one meeting have one date and much of their text in common; which of the
two a question means is in its words. And a statement says again what earlier ones announced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from searchbus_vectors import Hit

from .intent import WantedType
from .profiles import Profile
from .ranking import in_order, metadata

__all__ = ["choose_within_events", "raise_earliest"]

_SHARED = 0.5
"""Of what the wanted document lacks to the best passage of its event."""
_ALIKE = 0.2
"""Passages no further behind the best match the question alike."""
_RAISED = 0.1


def choose_within_events(ranked: Sequence[Hit], profile: Profile, wanted: WantedType) -> list[Hit]:
    """Raise the best passage of the wanted type by what others of its date match better."""
    best: dict[str, float] = {}
    chosen: dict[str, Hit] = {}
    for hit in ranked:
        date = metadata(hit, profile.date_field)
        own = hit.score
        if metadata(hit, profile.type_field) == wanted.value:
            chosen.setdefault(date, hit)
            own -= wanted.lift
        best[date] = max(best.get(date, own), own)
    raised = {}
    for date, hit in chosen.items():
        behind = best[date] - (hit.score - wanted.lift)
        if date and behind > 0:
            raised[hit.id] = hit.scored(hit.score + _SHARED * behind)
    return in_order(raised.get(hit.id, hit) for hit in ranked)


def raise_earliest(
    ranked: Sequence[Hit], profile: Profile, wanted: WantedType, shares: Mapping[str, float]
) -> list[Hit]:
    """Put the earliest of the passages that match alike first.

    Args:
        shares: id → share of the question's quantities; only passages with the most count.
    """
    if not ranked:
        return []
    most, best = max(shares.values()), ranked[0].score
    alike = [
        hit
        for hit in ranked
        if metadata(hit, profile.type_field) == wanted.value
        and shares[hit.id] == most
        and hit.score >= best - _ALIKE
        and metadata(hit, profile.date_field)
    ]
    if not alike:
        return list(ranked)
    first = min(alike, key=lambda hit: metadata(hit, profile.date_field))
    raised = first.scored(best + _RAISED)
    return [raised, *(hit for hit in ranked if hit.id != first.id)]

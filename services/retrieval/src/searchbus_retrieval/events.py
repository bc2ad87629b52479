"""Of several documents on one event, or of several that say the same, the one that is meant.

Minutes and statement of one meeting have one date and much of their text in common; which of the
two a question means is in its words. And a statement says again what earlier ones announced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from searchbus_vectors import AllOf, DateRange, Filter, Hit, VectorStore

from .dates import NextTo, Period
from .intent import WantedType
from .profiles import Profile
from .ranking import in_order, metadata

__all__ = ["choose_within_events", "day_beside", "raise_earliest"]

_SHARED = 0.5
"""Of what the wanted document lacks to the best passage of its event."""
_ALIKE = 0.2
"""Passages no further behind the best match the question alike."""
_RAISED = 0.1
_MOST_DAYS = 366
"""Between a date and the event before or after it."""


async def day_beside(
    store: VectorStore, collection: str, condition: Filter, path: str, beside: NextTo
) -> Period | None:
    """The last day with documents before a period, or the first after it; None within a year.

    It counts in ever shorter ranges, so that the documents are not read.

    Args:
        condition: that documents must meet.
        path: of the date in a passage's payload.
    """
    edge = beside.period.start if beside.before else beside.period.end

    def within(days: int) -> Period:
        far = timedelta(days=days)
        return Period(edge - far, edge) if beside.before else Period(edge, edge + far)

    least, most = 0, _MOST_DAYS + 1
    while most - least > 1:
        days = (least + most) // 2
        period = within(days)
        there = DateRange(path, gte=period.start.isoformat(), lt=period.end.isoformat())
        if await store.count(collection, AllOf((condition, there))):
            most = days
        else:
            least = days
    if most > _MOST_DAYS:
        return None
    period, one = within(most), timedelta(days=1)
    if beside.before:
        return Period(period.start, period.start + one)
    return Period(period.end - one, period.end)


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

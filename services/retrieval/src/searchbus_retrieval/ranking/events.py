"""Which of several documents on one event a question means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from searchbus_vectors import AllOf, Filter, Hit, VectorStore

from ..question.periods import NextTo, Period
from ..question.profiles import Profile
from .preferences import WantedType, in_order, metadata, within

_SHARED = 0.5
"""What the wanted document gains of its distance to the best passage of its event."""
_ALIKE = 0.2
"""Passages no further behind the best match the question alike."""
_RAISED = 0.1
_MOST_DAYS = 366
"""Between a date and the event before or after it."""


async def day_beside(
    store: VectorStore, collection: str, condition: Filter, path: str, beside: NextTo
) -> Period | None:
    """The last day with documents before a period, or the first after it; None within a year.

    Each further step starts at the day that the one before it found.

    Args:
        condition: that documents must meet.
        path: of the date in a passage's payload.
    """
    period: Period | None = beside.period
    for _ in range(beside.steps):
        if period is None:
            break
        period = await _nearest_day(store, collection, condition, path, period, beside.before)
    return period


async def _nearest_day(
    store: VectorStore,
    collection: str,
    condition: Filter,
    path: str,
    start: Period,
    before: bool,
) -> Period | None:
    """It counts in ever shorter ranges, so that the documents are not read."""
    edge = start.start if before else start.end

    def reached(days: int) -> Period:
        far = timedelta(days=days)
        return Period(edge - far, edge) if before else Period(edge, edge + far)

    least, most = 0, _MOST_DAYS + 1
    while most - least > 1:
        days = (least + most) // 2
        period = reached(days)
        if await store.count(collection, AllOf((condition, within(path, period)))):
            most = days
        else:
            least = days
    if most > _MOST_DAYS:
        return None
    period, one = reached(most), timedelta(days=1)
    if before:
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

"""Documents that a question seems to mean, by date, type and facts; they are ranked above others.

None is a filter, because a later document may have the answer.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from searchbus_contracts.retrieval import FieldType
from searchbus_vectors import AllOf, AnyOf, DateRange, Equals, Filter, Hit, Match

from ..question.dates import Dates, asks_for_change, dates_of
from ..question.periods import Period
from ..question.profiles import Profile
from ..question.quantities import Quantities
from .sentences import asks_for_number

_WORTH, _WORTH_FAR = (40, 20), (60, 60)
"""Matches to read by score, and by words."""


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

    def first_of(self, dates: Filter) -> Preference:
        """Those that also have one of the dates that the question names; else it means less."""
        less = replace(self, lift=self.lift / 2)
        return replace(self, condition=AllOf((self.condition, dates)), instead=less)


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
    lifts: defaultdict[str, float] = defaultdict(float)
    for preference, matches in preferred:
        for match in matches:
            lifts[match.id] += preference.lift
    best = best_matches(overall, preferred)
    hits = [
        Hit(key, best[key].score + lifts[key], best[key].cosine, payload)
        for key, payload in payloads.items()
    ]
    return in_order(hit.scored(hit.score + lift(hit)) for hit in hits)


def best_matches(
    overall: Sequence[Match], preferred: Sequence[tuple[Preference, Sequence[Match]]]
) -> dict[str, Match]:
    """Id → the match with the best score of those that the searches found."""
    best: dict[str, Match] = {}
    for matches in (overall, *(matches for _, matches in preferred)):
        for match in matches:
            if match.id not in best or best[match.id].score < match.score:
                best[match.id] = match
    return best


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


DATE_LIFT = 0.6
NEAR_LIFT = 0.4
"""Where no document has the date: it may be the day on which began what they announced."""
EVENT_LIFT = 0.3
"""The question names what happened, not when: it may as well be about what came of it."""
REPORTED_LIFT = 0.3
"""For documents of the two months after what happened; `DATE_LIFT` if a number is asked for."""
TYPE_LIFT = 0.4
ASKED_LIFT = 0.25
"""Less than where the question names the type: its words may mean another one."""
DATE_NAMES = ("date", "near date")
"""The names of the preferences for documents of a date, and for those around it."""
_EARLIER, _LATER = timedelta(days=45), timedelta(days=15)
"""How far documents may be from a date that none has."""
_REPORTED_WITHIN, _MOST_DAYS = timedelta(days=62), 125
"""How long after what happened; a third of a year at most: a year has its own documents."""


@dataclass(frozen=True, slots=True)
class WantedType:
    """The type of document that answers a question.

    Attributes:
        named: the question calls it by its name.
    """

    value: str
    named: bool

    @property
    def lift(self) -> float:
        """What it adds to the score of such a document."""
        return TYPE_LIFT if self.named else ASKED_LIFT


def wanted_type(
    profile: Profile, fields: Mapping[str, FieldType], question: str
) -> WantedType | None:
    """The type that the question names, or whose words it has; names of two types say nothing."""
    if profile.type_field not in fields:
        return None
    named = [value for value, pattern in profile.named.items() if pattern.search(question)]
    for value, pattern in profile.asked_of_others.items():
        if any(name != value for name in named) and pattern.search(question):
            return WantedType(value, named=False)
    if named:  # a name says more than words that ask
        return WantedType(named[0], named=True) if len(named) == 1 else None
    asked = (value for value, pattern in profile.asked.items() if pattern.search(question))
    first = next(asked, None)
    if first is None and Quantities(question):
        first = next((value for value, kind in profile.types.items() if kind.has_quantities), None)
    if first is None and asks_for_change(question):
        first = next((value for value, kind in profile.types.items() if kind.compared), None)
    return None if first is None else WantedType(first, named=False)


def preferences(
    profile: Profile, fields: Mapping[str, FieldType], question: str
) -> list[Preference]:
    """The documents that the question seems to mean, by date and by type.

    Args:
        fields: of the collection; a profile's field that it lacks says nothing.
    """
    found = []
    if profile.date_field in fields:
        path = f"m.{profile.date_field}"
        dates = dates_of(question)
        if dates.periods:
            found.append(dated(path, dates.periods))
        elif events := profile.dated_phrases.said_in(question):
            happened = within(path, *dict.fromkeys(events.values()))
            found.append(Preference(happened, EVENT_LIFT, "event"))
        if reported := reported_in(dates):
            lift = DATE_LIFT if asks_for_number(question) else REPORTED_LIFT
            found.append(Preference(within(path, *reported), lift, "reported later"))
    wanted = wanted_type(profile, fields, question)
    if wanted is not None:
        condition = Equals(f"m.{profile.type_field}", wanted.value)
        found.append(Preference(condition, wanted.lift, f"type {wanted.value}"))
    return found


def reported_in(dates: Dates) -> list[Period]:
    """The two months after each period that a question names, if it names no meeting or document by
    it: what happened then is in the documents of the next meetings."""
    return [
        Period(p.end, p.end + _REPORTED_WITHIN)
        for p in dates.periods
        if p.days <= _MOST_DAYS and p not in dates.held
    ]


def dated(path: str, periods: Sequence[Period]) -> Preference:
    """The documents of these periods; where there are none, those of the days around them.

    Args:
        path: of the date in a passage's payload.
    """
    date, near_date = DATE_NAMES
    near = Preference(shortly_beside(path, periods), NEAR_LIFT, near_date)
    return Preference(within(path, *periods), DATE_LIFT, date, near)


def shortly_beside(path: str, periods: Sequence[Period]) -> AnyOf:
    """Documents of the periods, and those shortly before and after them."""
    return within(path, *(Period(p.start - _EARLIER, p.end + _LATER) for p in periods))


def held_in(path: str, periods: Sequence[Period]) -> AnyOf:
    """Documents of what began in one of the periods: a meeting of two days may end after it."""
    return within(path, *(Period(p.start, p.end + timedelta(days=2)) for p in periods))


def within(path: str, *periods: Period) -> AnyOf:
    """Documents of the periods."""
    return AnyOf(
        tuple(DateRange(path, gte=p.start.isoformat(), lt=p.end.isoformat()) for p in periods)
    )

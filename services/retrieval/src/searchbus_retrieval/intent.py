"""What a question means beside its words: dates and types of documents.

Neither is a filter: a later document may have the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from searchbus_contracts.retrieval import FieldType
from searchbus_vectors import AnyOf, DateRange, Equals

from .changes import asks_for_change
from .dates import Period, mentioned_limits, mentioned_periods
from .profiles import Profile
from .quantities import Quantities
from .ranking import Preference

__all__ = [
    "ASKED_LIFT",
    "DATE_LIFT",
    "DATE_NAMES",
    "EVENT_LIFT",
    "LIMIT_LIFT",
    "NEAR_LIFT",
    "TYPE_LIFT",
    "WantedType",
    "around",
    "dated",
    "preferences",
    "wanted_type",
]

DATE_LIFT = 0.6
NEAR_LIFT = 0.4
"""Where no document has the date: it may be the day on which began what they announced."""
LIMIT_LIFT = 0.2
EVENT_LIFT = 0.3
"""The question names what happened, not when: it may as well be about what came of it."""
TYPE_LIFT = 0.4
ASKED_LIFT = 0.25
"""Less than where the question names the type: its words may mean another one."""
DATE_NAMES = ("date", "near date")
"""The names of the preferences for documents of a date, and for those around it."""
_EARLIER, _LATER = timedelta(days=45), timedelta(days=15)
"""Of the documents around a date that none has."""


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
        if periods := mentioned_periods(question):
            found.append(dated(path, periods))
        elif events := profile.dated_phrases.said_in(question):
            happened = _within(path, list(dict.fromkeys(events.values())))
            found.append(Preference(happened, EVENT_LIFT, "event"))
        for limit in mentioned_limits(question)[:1]:
            day = limit.day.isoformat()
            side = DateRange(path, lt=day) if limit.before else DateRange(path, gte=day)
            found.append(
                Preference(side, LIMIT_LIFT, "before date" if limit.before else "after date")
            )
    wanted = wanted_type(profile, fields, question)
    if wanted is not None:
        condition = Equals(f"m.{profile.type_field}", wanted.value)
        found.append(Preference(condition, wanted.lift, f"type {wanted.value}"))
    return found


def around(path: str, periods: Sequence[Period]) -> AnyOf:
    """Documents of the periods, and those shortly before and after them."""
    return _within(path, [Period(p.start - _EARLIER, p.end + _LATER) for p in periods])


def dated(path: str, periods: Sequence[Period]) -> Preference:
    """The documents of these periods; where there are none, those of the days around them.

    Args:
        path: of the date in a passage's payload.
    """
    date, near_date = DATE_NAMES
    near = Preference(around(path, periods), NEAR_LIFT, near_date)
    return Preference(_within(path, periods), DATE_LIFT, date, near)


def _within(path: str, periods: Sequence[Period]) -> AnyOf:
    return AnyOf(
        tuple(DateRange(path, gte=p.start.isoformat(), lt=p.end.isoformat()) for p in periods)
    )

"""What a question means beside its words: dates and types of documents.

Neither is a filter: a later document may have the answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from searchbus_contracts.retrieval import FieldType
from searchbus_vectors import AnyOf, DateRange, Equals

from .dates import mentioned_periods
from .profiles import Profile
from .ranking import Preference

__all__ = ["ASKED_LIFT", "DATE_LIFT", "TYPE_LIFT", "preferences"]

DATE_LIFT = 0.6
TYPE_LIFT = 0.4
ASKED_LIFT = 0.2
"""Less than where the question names the type: its words may mean another one."""


def preferences(
    profile: Profile, fields: Mapping[str, FieldType], question: str
) -> list[Preference]:
    """The documents that the question seems to mean, by date and by type.

    Args:
        fields: of the collection; a profile's field that it lacks says nothing.
    """
    found = []
    periods = mentioned_periods(question) if profile.date_field in fields else []
    if periods:
        ranges = tuple(
            DateRange(f"m.{profile.date_field}", gte=p.start.isoformat(), lt=p.end.isoformat())
            for p in periods
        )
        found.append(Preference(AnyOf(ranges), DATE_LIFT, "date"))
    if profile.type_field in fields:
        for patterns, lift in ((profile.named, TYPE_LIFT), (profile.asked, ASKED_LIFT)):
            kinds = [kind for kind, pattern in patterns.items() if pattern.search(question)]
            if len(kinds) == 1 or (kinds and patterns is profile.asked):
                condition = Equals(f"m.{profile.type_field}", kinds[0])
                found.append(Preference(condition, lift, f"type {kinds[0]}"))
            if kinds:
                break  # names say more than words that ask; two names say nothing
    return found

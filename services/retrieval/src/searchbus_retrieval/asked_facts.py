"""Which facts a question asks for: who voted against, or which decision raised or lowered the rate.

asked = AskedFacts.of(profile, facts, "Why did Poe dissent in May?")
asked.preference        # votes in which Poe voted against, before other votes
asked.answers(hit)      # whether it is such a passage
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from searchbus_contracts.retrieval import FieldType
from searchbus_vectors import AllOf, Equals, Filter, Hit, IsIn, NumberRange

from .directions import Directions
from .names import name_words, opening_words
from .profiles import Profile
from .ranking import Preference
from .records import fact_path

__all__ = ["AskedFacts"]

NAMED_LIFT = 0.7
"""Of a vote in which somebody voted against whom the question names."""
VOTES_LIFT = 0.5
"""Of a vote with anybody against it, where the question names nobody who ever was."""
DECISION_LIFT = 0.3
"""Of the passage with a decision of the direction that the question has."""


@dataclass(frozen=True, slots=True)
class AskedFacts:
    """Facts that a question asks for.

    Attributes:
        preference: for the passages that state them.
        fact: name of the facts.
        field: that has one of `values`, where the question says which ones.
    """

    preference: Preference
    fact: str
    field: str
    values: tuple[str, ...]

    @classmethod
    def of(
        cls, profile: Profile, facts: Mapping[str, FieldType], question: str
    ) -> AskedFacts | None:
        """None where the question is about something else, or no such facts were read."""
        asked = profile.asked_facts
        if "dissenters" in facts and "votes" in asked and asked["votes"].search(question):
            return _votes(question)
        if "decision" in facts and "decision" in asked and asked["decision"].search(question):
            return _decision(profile, question)
        return None

    def states(self, hit: Hit) -> bool:
        """Whether the hit states such facts."""
        return bool(hit.payload.get("fact") == self.fact)

    def answers(self, hit: Hit) -> bool:
        """Whether the hit states those facts, with one of the values that the question says."""
        found = (hit.payload.get("f") or {}).get(self.field) or ()
        have = (found,) if isinstance(found, str) else found
        return self.states(hit) and any(v in have for v in self.values)


def _votes(question: str) -> AskedFacts:
    """Votes against of those who are named; else votes with anybody against."""
    is_vote = Equals("fact", "votes")
    anybody = AllOf((is_vote, NumberRange(fact_path("dissents"), gte=1)))
    preference = Preference(anybody, VOTES_LIFT, "votes")
    names = tuple(dict.fromkeys([*name_words(question), *opening_words(question)]))
    if names:
        named = AllOf((is_vote, IsIn(fact_path("dissenters"), names)))
        preference = Preference(named, NAMED_LIFT, "votes of those named", preference)
    return AskedFacts(preference, "votes", "dissenters", names)


def _decision(profile: Profile, question: str) -> AskedFacts:
    """Decisions of the question's direction: "lower" for a question about a cut; else any."""
    ways = Directions(profile.opposites, question).own_words
    wanted: Filter = Equals("fact", "decision")
    if ways:
        wanted = AllOf((wanted, IsIn(fact_path("decision"), ways)))
    return AskedFacts(Preference(wanted, DECISION_LIFT, "decision"), "decision", "decision", ways)

"""What a question asks about votes: who voted against, or how somebody voted.

asked = AskedVotes.of(profile, facts, "Why did Poe dissent in May?")
asked.preference        # passages of votes in which Poe voted against, before other votes
asked.answers(hit)      # whether it is such a passage
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from searchbus_contracts.retrieval import FieldType
from searchbus_vectors import AllOf, Equals, Filter, Hit, IsIn, NumberRange

from .names import name_words, opening_words
from .profiles import Profile
from .ranking import Preference
from .records import fact_path

__all__ = ["NAMED_LIFT", "VOTES_LIFT", "AskedVotes"]

NAMED_LIFT = 0.7
"""Of a vote in which somebody voted against whom the question names."""
VOTES_LIFT = 0.35
"""Of a vote with anybody against it, where the question names nobody who ever was."""
_IS_VOTE: Filter = Equals("fact", "votes")


@dataclass(frozen=True, slots=True)
class AskedVotes:
    """A question about votes.

    Attributes:
        names: words of the question that may be names.
    """

    names: tuple[str, ...]

    @classmethod
    def of(
        cls, profile: Profile, facts: Mapping[str, FieldType], question: str
    ) -> AskedVotes | None:
        """None where the question is about something else, or no votes were read."""
        pattern = profile.asked_facts.get("votes")
        if pattern is None or "dissenters" not in facts or not pattern.search(question):
            return None
        return cls(tuple(dict.fromkeys([*name_words(question), *opening_words(question)])))

    @property
    def preference(self) -> Preference:
        """Votes against of those who are named; else votes with anybody against."""
        anybody = AllOf((_IS_VOTE, NumberRange(fact_path("dissents"), gte=1)))
        others = Preference(anybody, VOTES_LIFT, "votes")
        if not self.names:
            return others
        named = AllOf((_IS_VOTE, IsIn(fact_path("dissenters"), self.names)))
        return Preference(named, NAMED_LIFT, "votes of those named", others)

    def answers(self, hit: Hit) -> bool:
        """Whether it is a vote in which somebody who is named voted against."""
        against = (hit.payload.get("f") or {}).get("dissenters") or ()
        return hit.payload.get("fact") == "votes" and any(name in against for name in self.names)

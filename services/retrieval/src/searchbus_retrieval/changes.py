"""What changed between the documents of two dates: "March compared with January".

What is new stands in the later document, in the sentences that the earlier one of its type lacks.
They are compared when the question is asked, so that documents may come, change and go in any
order. Only the candidates of the search are compared.

    change = Change.of(profile, fields, "the statement of May 2020 compared with March 2020")
    change.lifts(hits)      # id → what being new adds
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from searchbus_contracts.retrieval import FieldType
from searchbus_vectors import Hit

from .dates import Period, mentioned_periods
from .profiles import Profile
from .ranking import metadata

__all__ = ["Change", "asks_for_change"]

LATER_LIFT = 0.15
"""Of the later document."""
NEW_LIFT = 0.3
"""Of a passage in which every sentence is new."""
_COMPARES = re.compile(
    r"\b(?:compared?|comparison|versus|vs|differ\w*|chang(?:e|es|ed|ing)|new|dropp?(?:ed|ing)|"
    r"remov(?:e|ed|ing)|add(?:ed|ing)|instead of|rather than|than|"
    r"as (?:big|large|much|many|high|low)|turn(?:s|ed)? into|became|become)\b",
    re.I,
)
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?=\S)[^.!?\n]+)*")
_SPACE = re.compile(r"\W+")


@dataclass(frozen=True, slots=True)
class Change:
    """The question compares documents of an earlier and a later period."""

    profile: Profile
    earlier: tuple[Period, ...]
    later: Period

    @classmethod
    def of(cls, profile: Profile, fields: Mapping[str, FieldType], question: str) -> Change | None:
        """None where the question compares nothing, or not two dates."""
        if profile.date_field not in fields or not asks_for_change(question):
            return None
        periods = sorted(mentioned_periods(question), key=lambda period: period.start)
        if len(periods) < 2 or periods[-1].start < periods[-2].end:
            return None
        return cls(profile, tuple(periods[:-1]), periods[-1])

    def lifts(self, hits: Sequence[Hit]) -> dict[str, float]:
        """Id → what it gains, of passages of the later period's documents."""
        known: dict[str, set[str]] = {}
        for hit in hits:
            if any(self._is_in(hit, period) for period in self.earlier):
                known.setdefault(self._type(hit), set()).update(_sentences(hit.payload["text"]))
        found = {}
        for hit in hits:
            if self._is_in(hit, self.later):
                found[hit.id] = LATER_LIFT + NEW_LIFT * _share_new(hit, known.get(self._type(hit)))
        return found

    def _type(self, hit: Hit) -> str:
        return metadata(hit, self.profile.type_field)

    def _is_in(self, hit: Hit, period: Period) -> bool:
        date = metadata(hit, self.profile.date_field)
        return period.start.isoformat() <= date < period.end.isoformat()


def asks_for_change(question: str) -> bool:
    """Whether the question compares two dates."""
    return bool(_COMPARES.search(question)) and len(mentioned_periods(question)) > 1


def _share_new(hit: Hit, known: set[str] | None) -> float:
    """The share of the passage, in characters, that no earlier document has."""
    if known is None:
        return 0.0
    sentences = _sentences(hit.payload["text"])
    count = sum(map(len, sentences))
    return sum(len(s) for s in sentences if s not in known) / count if count else 0.0


def _sentences(text: str) -> set[str]:
    """Sentences in small letters, without punctuation; one of few characters says nothing."""
    found = (_SPACE.sub(" ", match[0]).strip().lower() for match in _SENTENCE.finditer(text))
    return {sentence for sentence in found if len(sentence) > 20}

"""Facts that a question asks about or takes for granted: votes, and decisions on rates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from searchbus_contracts.retrieval import FieldType
from searchbus_vectors import AllOf, AnyOf, Equals, Filter, Hit, IsIn, NumberRange

from ..documents.records import fact_path
from ..question.dates import dates_of
from ..question.profiles import Profile
from ..question.quantities import Quantities
from ..question.words import Directions, name_words, opening_words, plain_letters
from .preferences import Preference, shortly_beside, within

NAMED_LIFT, VOTES_LIFT = 0.7, 0.5
"""Votes of those named, votes with anybody against."""
_MOST_BP = 10_000
"""No target moves so far."""
RATES_LIFT, DECISION_LIFT = 0.6, 0.3
"""Decisions of the question's rates, and of its direction."""


_NUMBERS = {"two": 2, "both": 2, "three": 3, "four": 4, "five": 5}
_NUMBER_AGAINST = re.compile(
    rf"\b(?P<number>{'|'.join(_NUMBERS)})\s+(?:[\w-]+\s+){{0,3}}"
    r"(?:members|people|officials|policymakers|policy makers|voters|presidents|governors"
    r"|dissent\w*|votes|nays|objectors|rebels|holdouts|vot(?:ed|ing))\b",
    re.I,
)


_BETWEEN = (
    r"(?:(?!(?:an?|about|after|and|any|as|because|before|but|by|from|if|in|no|not|of|on|or|that|the|to"
    r"|when|where|which|while|who|whom|with)\b)[a-z]+\s+){0,3}"
)
"""Between who votes and the vote; not "Yellen said when"."""
_OWN_VOTE = re.compile(
    r"\b(?!(?:Wh\w{1,3}|How|The|Some|Any)\b)(?P<name>[A-Z]\w{2,})(?:"
    rf"\s+{_BETWEEN}(?:dissent(?:ed|ing)?|object(?:ed)?|oppos(?:e|ed)|vot(?:e|ed|ing|es)\s+(?:against|no))\b"
    r"|['\u2019]s\s+(?:[a-z]+\s+)?(?:dissent\w*|objections?|opposition|votes?\s+against)\b)"
)
_ASKS_WHETHER = re.compile(
    r"\b(?:[Dd]id|[Hh]as|[Hh]ave|[Hh]ad|[Ww]as|[Ww]ere|[Ii]s\s+it|ever)\s+(?:(?:[A-Z][\w.]*|and|or)\s+)*$"
)
_DOUBTS = re.compile(
    r"n['\u2019]t\b|\b(?:never|not|rarely|hardly|seldom|if|whether|true\s+that)\b", re.I
)
_ASKS_WHO = re.compile(r"\b(?:who|whose|which)\b", re.I)
_ASKS_MORE = re.compile(r"\b(?:wh(?:y|at|ich|en|ere)|how|grounds|reasons?|explain)\b", re.I)


@dataclass(frozen=True, slots=True)
class Premise:
    """What a question takes for granted, where the facts can say that it is not so.

    Attributes:
        stated: passages of documents with facts of that person and time.
        so: those of them that have what is taken for granted.
    """

    stated: Filter
    so: Filter

    @classmethod
    def of(
        cls, profile: Profile, facts: Mapping[str, FieldType], question: str, date_path: str
    ) -> Premise | None:
        """A vote against ("Why did Yellen dissent in 2015?"), or a decision of a time; none where
        the question itself denies or doubts it."""
        if _DOUBTS.search(question):
            return None
        periods = dates_of(question).periods
        when = (shortly_beside(date_path, periods),) if periods else ()
        said = _OWN_VOTE.search(question)
        if (
            said
            and not _ASKS_MORE.search(question)
            and _ASKS_WHETHER.search(question[: said.start()])
        ):
            said = None
        if said is not None and "dissenters" in facts:
            name = (said["name"],)
            stated = AllOf((*when, IsIn(fact_path("voters"), name)))
            return cls(stated, AllOf((*when, IsIn(fact_path("dissenters"), name))))
        asked = profile.asked_facts.get("decision")
        ways = Directions(profile.opposites, question).own_words
        if not (periods and ways and "decision" in facts and asked and asked.search(question)):
            return None
        if any(f"to {way}" in question for way in ways):  # what somebody wanted
            return None
        quantities = Quantities(question)
        wanted = (IsIn(fact_path("decision"), ways), *_rates(quantities))
        is_decision = Equals("fact", "decision")
        # Many statements say the new range alone, and not the change.
        size = (
            (NumberRange(fact_path("change_bp"), gte=-_MOST_BP),) if quantities.basis_points else ()
        )
        stated = AllOf((is_decision, within(date_path, *periods), *size))
        return cls(stated, AllOf((is_decision, *when, *wanted)))


@dataclass(frozen=True, slots=True)
class AskedFacts:
    """Facts that a question asks for.

    Attributes:
        preference: for the passages that state them.
        fact: name of the facts.
        field: that has one of `values`, where the question says which ones.
        asks_who: whether it asks who voted against.
    """

    preference: Preference
    fact: str
    field: str
    values: tuple[str, ...]
    asks_who: bool = False

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
        """Whether the hit states those facts, with one of the values that the question says; where
        it says none and asks who, a vote with anybody against."""
        if not self.values:
            return self.asks_who and self.has_dissent(hit)
        found = (hit.payload.get("f") or {}).get(self.field) or ()
        have = (found,) if isinstance(found, str) else found
        return self.states(hit) and any(v in have for v in self.values)

    def has_dissent(self, hit: Hit) -> bool:
        """Whether the hit states a vote that somebody was against."""
        return self.states(hit) and bool((hit.payload.get("f") or {}).get("dissents"))


def _votes(question: str) -> AskedFacts:
    """Votes against of those who are named; else votes with so many, or with anybody, against."""
    is_vote = Equals("fact", "votes")
    anybody = AllOf((is_vote, NumberRange(fact_path("dissents"), gte=1)))
    preference = Preference(anybody, VOTES_LIFT, "votes")
    if number := _NUMBER_AGAINST.search(plain_letters(question)):
        counted = AllOf((is_vote, _is("dissents", _NUMBERS[number["number"].lower()])))
        preference = Preference(counted, NAMED_LIFT, "votes of so many", preference)
    said = dict.fromkeys([*name_words(question), *opening_words(question)])
    names = tuple(name for name in said if name.lower() not in _NUMBERS)
    if names:
        named = AllOf((is_vote, IsIn(fact_path("dissenters"), names)))
        preference = Preference(named, NAMED_LIFT, "votes of those named", preference)
    who = _ASKS_WHO.search(question) is not None
    return AskedFacts(preference, "votes", "dissenters", names, who)


def _decision(profile: Profile, question: str) -> AskedFacts:
    """Decisions of the question's rates and its direction, which is "lower" for a cut.

    Where there are none of the rates, those of the direction.
    """
    ways = Directions(profile.opposites, question).own_words
    wanted: Filter = Equals("fact", "decision")
    if ways:
        wanted = AllOf((wanted, IsIn(fact_path("decision"), ways)))
    preference = Preference(wanted, DECISION_LIFT, "decision")
    rates = _rates(Quantities(question))
    if rates:
        exact = AllOf((wanted, *rates))
        preference = Preference(exact, RATES_LIFT, "decision of those rates", preference)
    return AskedFacts(preference, "decision", "decision", ways)


def _rates(quantities: Quantities) -> list[Filter]:
    """What the rates and the change of a question say of a decision's facts.

    A range is called by both of its ends, or by the upper one.
    """
    conditions: list[Filter] = []
    for low, high in quantities.ranges[-1:]:  # "from 2 percent to 1 percent": the last is decided
        conditions.append(_is("target_high", high))
        conditions += [_is("target_low", low)] if low < high else []
    for points in quantities.basis_points[:1]:
        conditions.append(AnyOf((_is("change_bp", points), _is("change_bp", -points))))
    return conditions


def _is(fact: str, value: float) -> NumberRange:
    return NumberRange(fact_path(fact), gte=value, lte=value)

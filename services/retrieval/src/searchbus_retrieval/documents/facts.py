"""Facts of documents, read when they are stored: who voted against, what was decided."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from searchbus_contracts.ingest import NewDocument
from searchbus_contracts.retrieval import FieldType

from ..question.profiles import Profile
from .votes import read_votes, surname

_DASH = r"(?:[-\u2010-\u2013]|\u00e2\u0080\u0091)"
"""The last one is a dash in UTF-8 that was read as Latin-1, as in some texts of statements."""
_FRACTION = r"\d/\d{1,2}"
_NUMBER = rf"(?:\d{{1,2}}(?:\.\d{{1,3}}|(?:{_DASH}|\s){_FRACTION})?|{_FRACTION})"
_WAYS = {
    word: way
    for way, words in {
        "raise": "raise raised raising increase increased",
        "lower": "lower lowered lowering reduce reduced reduction ease",
        "maintain": "maintain maintained keep keeping kept leave unchanged reaffirmed retain",
        "establish": "establish",
    }.items()
    for word in words.split()
}
_DECIDED = re.compile(
    r"\b(?:decided|voted|agreed|reaffirmed|will (?:keep|maintain))\b(?!\s+unanimously\s+to\s+auth)",
    re.I,
)
_PERCENT = r"(?:\s*%|[-\s]percent\b)"
_RANGE = rf"(?P<low>{_NUMBER})(?:{_PERCENT})?(?:\s+to\s+(?P<high>{_NUMBER}))?{_PERCENT}"
_TARGET = r"\btarget(?:\s+range)?\s+for\s+the\s+federal\s+funds\s+rate"
_STATED = re.compile(
    rf"\b(?P<way>{'|'.join(_WAYS)})\b[^;]{{0,60}}?{_TARGET}(?:\s+unchanged)?"
    rf"(?:,?\s+(?:by\s+)?(?P<by>{_NUMBER})\s?-?(?P<unit>basis|percentage)\s+points?,?)?"
    rf"\s+(?:to|at|of)\s+(?:a\s+range\s+of\s+)?{_RANGE}",
    re.I,
)
_CURRENT = re.compile(
    rf"\b(?P<way>reaffirmed|maintain|keep)\b[^;]{{0,60}}?\b{_RANGE}\s+{_TARGET[2:]}", re.I
)
_UNCHANGED = re.compile(
    rf"\b(?P<way>leave|keep|maintain)\b[^;]{{0,30}}?{_TARGET}\s+unchanged(?:\.|$)", re.I
)
_SENTENCE = re.compile(r"[^.;]*(?:[.;](?=\S)[^.;]*)*[.;]?")


@dataclass(frozen=True, slots=True)
class Decision:
    """The target range, in percent; `low` equals `high` where it is one rate, and both are None
    where the target is left unchanged without saying it.

    Attributes:
        way: raise, lower, maintain or establish.
        change_bp: in basis points, negative for a cut; None where the statement does not say it.
        start: of its sentence in the text.
    """

    low: float | None
    high: float | None
    way: str
    change_bp: int | None
    start: int
    end: int


def read_decision(text: str) -> tuple[Decision | None, str | None]:
    """The first decision of a statement, or why a sentence that has one cannot be read."""
    problem = None
    for sentence in _SENTENCE.finditer(text):
        said = sentence[0]
        if "federal funds rate" not in said or "target" not in said or not _DECIDED.search(said):
            continue
        match = _STATED.search(said) or _CURRENT.search(said) or _UNCHANGED.search(said)
        if match is None:
            problem = problem or repr(" ".join(said.split())[:200])
            continue
        parts = match.groupdict()
        way = _WAYS.get(match["way"].lower(), "maintain")
        low, high = _rate(parts.get("low")), _rate(parts.get("high"))
        change = _change_bp(parts.get("by"), parts.get("unit"), way)
        start = sentence.start() + len(said) - len(said.lstrip())
        return Decision(low, high or low, way, change, start, sentence.end()), None
    return None, problem


def _change_bp(by: str | None, unit: str | None, way: str) -> int | None:
    if way == "maintain":
        return 0
    if by is None or unit is None or way not in ("raise", "lower"):
        return None
    points = (_rate(by) or 0.0) * (1 if unit.lower() == "basis" else 100)
    return round(points) * (1 if way == "raise" else -1)


def _rate(text: str | None) -> float | None:
    if text is None:
        return None
    whole = re.sub(rf"{_DASH}|\s", " ", text).split()
    return float(sum((Fraction(part) for part in whole), Fraction(0)))


_RULES = "3"
"""Another one means that documents have to be read again, also where their text is the same."""


@dataclass(frozen=True, slots=True)
class FactPassage:
    """Text of the document from `start` to `end` that states facts of this name.

    Attributes:
        own: it is a passage of its own; else it marks the one around its start.
        fields: what this passage states, where the document states more.
    """

    start: int
    end: int
    fact: str
    own: bool = True
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Facts:
    """What was read of one document.

    Attributes:
        fields: name → value, or list of values, any of which a filter may match.
        problems: what looks like a fact and could not be read, shortened.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    passages: list[FactPassage] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def facts_of(profile: Profile, document: NewDocument) -> Facts:
    """What the profile's readers find in a document of the types that they are for."""
    facts = Facts()
    kind = str(document.metadata.get(profile.type_field or "") or "")
    for name, source in profile.facts.items():
        if not source.types or kind in source.types:
            _READERS[name][0](document.text, facts)
    return facts


def rules_of(profile: Profile) -> str:
    """The version of the rules that read the profile's facts; empty where it has none."""
    return _RULES if profile.facts else ""


def fact_fields(profile: Profile) -> dict[str, FieldType]:
    """The fields that the profile's readers may give, and their types."""
    return {name: kind for fact in profile.facts for name, kind in _READERS[fact][1].items()}


def _add_votes(text: str, facts: Facts) -> None:
    votes, problems = read_votes(text)
    facts.problems += problems
    if not votes:
        return
    against = [name for vote in votes for name in vote.dissents]
    facts.fields["dissenters"] = _names(against)
    facts.fields["voters"] = _names(against + [name for vote in votes for name in vote.votes_for])
    facts.fields["dissents"] = len(against)
    facts.passages += [
        FactPassage(
            vote.start,
            vote.end,
            "votes",
            fields={"dissenters": _names([*vote.dissents]), "dissents": len(vote.dissents)},
        )
        for vote in votes
        if vote.dissents
    ]


def _names(names: list[str]) -> list[str]:
    return list(dict.fromkeys(form for name in names for form in (name, surname(name))))


def _add_decision(text: str, facts: Facts) -> None:
    decision, problem = read_decision(text)
    if problem is not None:
        facts.problems.append(problem)
    if decision is None:
        return
    found = {
        "decision": decision.way,
        "target_low": decision.low,
        "target_high": decision.high,
        "change_bp": decision.change_bp,
    }
    facts.fields |= {name: value for name, value in found.items() if value is not None}
    facts.passages.append(FactPassage(decision.start, decision.end, "decision", own=False))


_Reader = Callable[[str, Facts], None]
_READERS: dict[str, tuple[_Reader, dict[str, FieldType]]] = {
    "votes": (_add_votes, {"dissenters": "keyword", "voters": "keyword", "dissents": "integer"}),
    "decision": (
        _add_decision,
        {"decision": "keyword", "target_low": "float", "target_high": "float",
         "change_bp": "integer"},
    ),
}  # fmt: skip

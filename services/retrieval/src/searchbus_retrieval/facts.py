"""Facts of documents, read when they are stored: who voted against, what was decided.

A profile names the readers of its collection (profiles.py). What they read are fields for `where`
and passages of their own; a passage is text of the document, never made up.

    facts = facts_of(profile, document)
    facts.fields        # {"dissenters": ["Ann B. Poe", "Poe"], "dissents": 1, ...}
    facts.passages      # [Passage(start, end, "votes")]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from searchbus_contracts.ingest import NewDocument
from searchbus_contracts.retrieval import FieldType

from .decisions import read_decision
from .profiles import Profile
from .votes import read_votes, surname

__all__ = ["Facts", "Passage", "fact_fields", "facts_of", "rules_of"]

_RULES = "1"
"""Another one means that documents have to be read again, also where their text is the same."""


@dataclass(frozen=True, slots=True)
class Passage:
    """Text of the document from `start` to `end` that states facts of this name.

    Attributes:
        own: it is a passage of its own; else it marks the one around its start.
    """

    start: int
    end: int
    fact: str
    own: bool = True


@dataclass(slots=True)
class Facts:
    """What was read of one document.

    Attributes:
        fields: name → value, or list of values, any of which a filter may match.
        problems: what looks like a fact and could not be read, shortened.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    passages: list[Passage] = field(default_factory=list)
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


def _votes(text: str, facts: Facts) -> None:
    votes, problems = read_votes(text)
    facts.problems += problems
    if not votes:
        return
    against = [dissent.name for vote in votes for dissent in vote.dissents]
    facts.fields["dissenters"] = _names(against)
    facts.fields["voters"] = _names(against + [name for vote in votes for name in vote.votes_for])
    facts.fields["dissents"] = len(against)
    facts.passages += [Passage(vote.start, vote.end, "votes") for vote in votes if vote.dissents]


def _names(names: list[str]) -> list[str]:
    """Each name and its surname."""
    return list(dict.fromkeys(form for name in names for form in (name, surname(name))))


def _decision(text: str, facts: Facts) -> None:
    decision, problem = read_decision(text)
    if problem is not None:
        facts.problems.append(problem)
    if decision is None:
        return
    facts.fields["decision"] = decision.way
    for name in ("low", "high"):
        if (value := getattr(decision, name)) is not None:
            facts.fields[f"target_{name}"] = value
    facts.passages.append(Passage(decision.start, decision.end, "decision", own=False))
    if decision.change_bp is not None:
        facts.fields["change_bp"] = decision.change_bp


_Reader = Callable[[str, Facts], None]
_READERS: dict[str, tuple[_Reader, dict[str, FieldType]]] = {
    "votes": (_votes, {"dissenters": "keyword", "voters": "keyword", "dissents": "integer"}),
    "decision": (
        _decision,
        {"decision": "keyword", "target_low": "float", "target_high": "float",
         "change_bp": "integer"},
    ),
}  # fmt: skip

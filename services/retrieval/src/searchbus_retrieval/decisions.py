"""Reads the decision about the target for the federal funds rate from the text of a statement.

    read_decision("... decided to lower its target for the federal funds rate by 50 basis points
                   to 2-1/2 percent.")
    # Decision(low=2.5, high=2.5, way="lower", change_bp=-50, sentence)

The change is known where the statement itself says it. Nothing is guessed: a sentence with a
decision whose numbers cannot be read is a problem, and no decision.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

__all__ = ["Decision", "read_decision"]

_DASH = r"(?:[-\u2010-\u2013]|\u00e2\u0080\u0091)"
"""The last one is a dash in UTF-8 that was read as Latin-1, as in some texts of statements."""
_PART = r"\d/\d{1,2}"
_NUMBER = rf"(?:\d{{1,2}}(?:\.\d{{1,3}}|(?:{_DASH}|\s){_PART})?|{_PART})"
_WAYS = {
    "raise": "raise", "raised": "raise", "raising": "raise", "increase": "raise",
    "increased": "raise", "lower": "lower", "lowered": "lower", "lowering": "lower",
    "reduce": "lower", "reduced": "lower", "reduction": "lower", "ease": "lower",
    "maintain": "maintain",
    "maintained": "maintain", "keep": "maintain", "keeping": "maintain", "kept": "maintain",
    "leave": "maintain", "unchanged": "maintain", "reaffirmed": "maintain",
    "establish": "establish", "retain": "maintain",
}  # fmt: skip
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
        low = _number(parts.get("low"))
        high = _number(parts.get("high")) or low
        change = _change_bp(parts.get("by"), parts.get("unit"), way)
        start = sentence.start() + len(said) - len(said.lstrip())
        return Decision(low, high, way, change, start, sentence.end()), None
    return None, problem


def _change_bp(by: str | None, unit: str | None, way: str) -> int | None:
    if way == "maintain":
        return 0
    if by is None or unit is None or way not in ("raise", "lower"):
        return None
    points = (_number(by) or 0.0) * (1 if unit.lower() == "basis" else 100)
    return round(points) * (1 if way == "raise" else -1)


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    whole = re.sub(rf"{_DASH}|\s", " ", text).split()
    return float(sum((Fraction(part) for part in whole), Fraction(0)))

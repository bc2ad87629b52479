"""Reads who voted for and against an action from the text of a statement or of minutes.

    Votes for this action: Messrs. Doe and Roe. Vote against this action: Ms. Poe.
    Voting for the FOMC monetary policy action were: Jane Q. Doe, Chair; and John Roe.
    Voting against this action was Ann Poe, who preferred to ...

Nothing is guessed: a vote whose names cannot be read is a problem, and no vote.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MOST_CHARS = 1600
"""A vote with its reasons is as long as a passage."""
_MOST_NAMES = 30
"""A committee has fewer members."""
_MARK = re.compile(
    r"\bVot(?:e|es|ing)(?: \(by notation\))? (?P<way>for|against|in favor of)"
    r"(?: (?!action)[^.:;]{0,70}?)?"
    r"(?:(?P<colon>\s*:)|\s+(?P<verb>was|were)\b:?)\s*"
)
_PART = r"(?:[A-Z]\.\s?)*(?:[Dd]e |Mc|Mac|O['’]|D['’])?[A-Z][\w'’\u2011-]*[a-z](?:[A-Z][a-z]+)?"
_FULL = rf"[A-Z][\w'’.-]*(?:\s+{_PART}|\s+[A-Z]\.){{0,4}}\s+{_PART}(?:,?\s+(?:Jr|Sr)\.)?"
_TITLE = re.compile(r"\b(?:Messrs|Mses|Mr|Ms|Mrs|Dr|Mss)\b\.?\s*")
_TITLED = re.compile(
    rf"(?:{_TITLE.pattern}{_PART}|{_PART})(?:(?:,? and |, ?)(?:{_TITLE.pattern})?{_PART})*"
)
_NAME = re.compile(rf"{_FULL}|{_PART}")
_JUNIOR = re.compile(r",?\s+(?:Jr|Sr)\b\.?")
_WITHIN = re.compile(
    rf"(?:^|[,;]\s+(?:and\s+)?|\band\s+|\.\s+)(?P<name>{_FULL})(?=[,;.]|\s+(?:and|who|because|preferred|supported|dissented|\())"
)
_NO_NAMES = re.compile(
    r"\b(?:Federal|Committee|Treasury|Reserve|Board|Bank|Open|Market|System|United|Securities)\b"
)
_OFFICES = re.compile(r",?\s*(?:Vice\s+)?Chair(?:man|woman)?\b|\([^)]*\)|\[[^\]]*\]")
_ABBREVIATED = re.compile(r"(?:\b[A-Z]|\b(?:Jr|Sr|Mr|Ms|Mrs|Mses|Mss|Dr|Messrs|U\.S|St))$")
_END = re.compile(r"\.[\"”]?\d{0,2}(?=\s|$)|\n\s*\n|$")
_NONE = re.compile(r"None\b", re.I)
_ENDS_REASONS = re.compile(
    r"(?:It was agreed|Consistent with|By notation|Votes? for|Voting for|In the Committee's|"
    r"The Committee (?:then|also|next)|The meeting|The vote encompassed|In a related|Secretary|"
    r"The Chair|The Federal Open Market Committee|For (?:media|release)|Implementation Note|"
    r"Statement Regarding|Following|To support|Absent and not|Return to|\d+\. )"
)
_PRONOUN = re.compile(r"\b(?:he|she|they)\b")
_ABSENT = re.compile(rf"Absent(?: and not voting)?:\s+{_TITLED.pattern}\.?\s*")
_ALTERNATE = re.compile(r"[^.]{0,60}\bvoted as (?:an )?alternate")


@dataclass(frozen=True, slots=True)
class Vote:
    """One vote: the text from `start` to `end`, with the reasons that follow it."""

    start: int
    end: int
    votes_for: tuple[str, ...]
    dissents: tuple[str, ...]


def read_votes(text: str) -> tuple[list[Vote], list[str]]:
    """Every vote, and the votes that could not be read."""
    votes: list[Vote] = []
    problems: list[str] = []
    marks = list(_MARK.finditer(text))
    for number, mark in enumerate(marks):
        following = marks[number + 1] if number + 1 < len(marks) else None
        limit = following.start() if following else len(text)
        try:
            if mark["way"] == "against":
                if number == 0 or marks[number - 1]["way"] == "against":
                    votes.append(_against(text, mark, limit, mark.start(), ()))
            else:
                end = _sentence_end(text, mark.end(), limit)
                names = _list(text[mark.end() : end])
                if following is not None and following["way"] == "against":
                    after = marks[number + 2].start() if number + 2 < len(marks) else len(text)
                    votes.append(_against(text, following, after, mark.start(), names))
                else:
                    votes.append(Vote(mark.start(), end, names, ()))
        except ValueError as error:
            problems.append(str(error))
    return votes, problems


def _against(
    text: str, mark: re.Match[str], limit: int, start: int, votes_for: tuple[str, ...]
) -> Vote:
    titled = _TITLED.match(text, mark.end(), limit) if _TITLE.match(text, mark.end()) else None
    end = titled.end() if titled else _sentence_end(text, mark.end(), limit)
    said = text[mark.end() : end].strip()
    if len(said) > _MOST_CHARS:
        raise ValueError(f"{len(said)} characters in {_shown(said)}")
    if _NONE.match(said):
        return Vote(start, end, votes_for, ())
    dissents = _dissents(said)
    if mark["verb"] == "were" and len(dissents) < 2:
        raise ValueError(f"{len(dissents)} names in {_shown(mark[0] + said)}")
    end += text[end : end + 1] == "."
    surnames = [surname(name) for name in dissents]
    end = _reasons_end(text, end, limit, start + _MOST_CHARS, surnames)
    return Vote(start, end, votes_for, dissents)


def surname(name: str) -> str:
    """The last name: `McTeer` of "Robert D. McTeer, Jr."."""
    return _JUNIOR.sub("", name).split()[-1].split(".")[-1]


def _dissents(said: str) -> tuple[str, ...]:
    """The names of a sentence such as "A, who preferred …; and B and C, who …"."""
    bare = re.sub(r"[“\"][^”\"]*[”\"]", lambda quote: "~" * len(quote[0]), said)
    if not re.search(r"\b(?:who|because|prefer|support|believ|would)", bare):
        return _list(said)
    found = [match for match in _WITHIN.finditer(bare) if not _NO_NAMES.search(match["name"])]
    if not found or found[0].start("name") != 0:
        raise ValueError(f"no name at the start of {_shown(said)}")
    return tuple(re.sub(r"\s+", " ", match["name"]) for match in found)


def _list(said: str) -> tuple[str, ...]:
    """The names of a list such as "Messrs. A, B, Ms. C, and D" or "A. B. Doe, Chair; and E Roe"."""
    said = _JUNIOR.sub("", _OFFICES.sub("", said))
    if _TITLE.search(said):  # surnames alone: a comma that is lacking does not join two of them
        parts = re.split(r"[,;:\s]+(?:and\s+)?", _TITLE.sub(" ", said.strip()).strip(" .\n\xa0"))
    else:
        parts = re.split(r"[,;:]\s*(?:and\s+)?|\s+and\s+", said.strip(" .\n\xa0"))
    names = []
    for part in parts:
        name = re.sub(r"\s+", " ", part.strip(" .\n\xa0")).removeprefix("and ")
        if name in ("", "and"):
            continue
        if not _NAME.fullmatch(name) or _NO_NAMES.search(name):
            raise ValueError(f"{_shown(name)} is not a name in {_shown(said)}")
        names.append(name)
    if not 1 <= len(names) <= _MOST_NAMES:
        raise ValueError(f"{len(names)} names in {_shown(said)}")
    return tuple(names)


def _sentence_end(text: str, start: int, limit: int) -> int:
    for match in _END.finditer(text, start, limit):
        if match[0][:1] == "." and _ABBREVIATED.search(
            text, max(start, match.start() - 8), match.start()
        ):
            following = text[match.end() : match.end() + 40]
            if not re.match(
                r"\s+(?:Voting|Votes?|In a related|President|Governor|It was)\b", following
            ):
                continue
        return match.end() if match[0][:1] == "." else match.start()
    return limit


def _reasons_end(text: str, end: int, limit: int, most: int, surnames: list[str]) -> int:
    """Where the sentences end that say why: the first names a dissenter."""
    first, reasons = True, end
    while end < min(limit, most):
        start = end + len(text[end:limit]) - len(text[end:limit].lstrip())
        if absent := _ABSENT.match(text, start, limit):
            end = absent.end()
            continue
        stop = _sentence_end(text, start, limit)
        if start >= limit or stop > most or stop <= end or _ENDS_REASONS.match(text, start):
            break
        sentence = text[start:stop]
        if _ALTERNATE.match(sentence):
            end = stop
            continue
        if first and not (_PRONOUN.search(sentence) or any(n in sentence for n in surnames)):
            break
        first, end, reasons = False, stop, stop
    return reasons


def _shown(text: str) -> str:
    return repr(" ".join(text.split())[:160])

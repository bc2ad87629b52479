"""How probable it is that a hit answers the question: an absolute number, unlike its score."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from searchbus_contracts.retrieval import SearchHit
from searchbus_vectors import Embedder, different_terms, terms

from ..question.date_words import DATE_WORD
from ..question.periods import Period
from .backgrounds import NoiseBackground

_BIAS = -5.7
_DISTANCE, _LEAST_DISTANCE, _MOST_DISTANCE = 1.65, -1.0, 4.0
"""Weight of the cosine's distance from the collection's background, in its spreads."""
_SHARE = 1.1
"""Weight of the share of the question's words in the passage, by their rarity."""
_MASS, _MASS_SCALE = 1.05, 4.5
"""Weight of the sum of their rarity: two rare ones say more than two frequent ones."""
_ALL_FOUND, _LEAST_WORDS = 1.5, 2
"""Where the passage has every word of a question of at least so many, and none of its dates is
outside of the collection."""
_IN_PERIOD, _IN_LONG_PERIOD, _LONG_DAYS = 1.6, 0.6, 100
_OUTSIDE, _YEAR_IN_TEXT = -4.4, 0.75
"""The question names a date at which no document is; a passage that names the year may answer."""
_NO_SUCH_NAME = -2.1
_NO_SUCH_WORD, _FEW_WORDS, _ALL_WORDS = -1.5, 1.2, 4.0
"""Words that the collection lacks count wholly from 10 ** 4 passages on: the vocabulary of a small
collection says little, and an answer in other words is made up for."""
_FULL_NAME, _NAME_RARITY = 1.8, 5.0
"""Where the passage has a name of two words, with or without initials between them, of which one is
not in every passage: names say little to the model."""
_DENIED = 0.1
"""At most, where the question takes for granted what the facts deny, such as a vote."""
_OF_OTHERS = -4.0
"""The question is about one whom the documents are not about, and the passage does not name it."""
_ORDERED = 1.0
"""The question asks for the first or the latest of a type of documents that it names."""
_STATES_FACT = 1.5
"""It states a fact of the date that the question asks for, such as a vote: names and numbers, which
say little to the model."""
_LITERAL = 0.9
"""At least, where the question stands in the passage word for word."""
_ASKING = frozenset(
    "anybody anyone anything describe explain find give happen happened list mention mentioned "
    "please said say says show somebody someone something summarise summarize tell told".split()
)
"""Words that say how something is asked, not what."""
_FOREIGN_SHARE, _FOREIGN_STEEPNESS, _FOREIGN_BIAS = 0.5, 40.0, -0.85
"""From this share of words that the collection lacks on, a question to a model of many languages
may be in another one than the passages: no word says anything then, nor do English unrelated
questions, and the cosine alone counts. At the model's sure one it is just a match."""
_ENGLISH = frozenset(
    "and are did do does for from how that the this to what when where which who why with".split()
)
"""Words that show a question to be in English, of which other languages have none."""
_MAX_TEXT_CHARS, _MAX_VALUE_CHARS = 10_000, 200
"""Text that is read of a passage, ten times a usual one, and of each value of its metadata."""
_NAME = re.compile(r"\b[A-Z]\w*|\b\w*\d\w*")
_PAIR = re.compile(r"\b([A-Z][a-z]+)(?=\s+(?:[A-Z]\.\s*){0,2}([A-Z][a-z]+)\b)")
_MOST_NAMES = 6
_SURE_NAME = re.compile(r"[A-Z]{2,}|\w*\d")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Dated:
    """The dates that a question names.

    Args:
        field: metadata field with a document's date.
        outside: whether the collection has no document at these dates or near them.
    """

    field: str
    periods: Sequence[Period]
    outside: bool

    def evidence(self, hit: SearchHit) -> float:
        """What it says for a hit that its document is of one of the periods; 0 where it is not."""
        day = str(hit.metadata.get(self.field))[:10]
        days = [period.days for period in self.periods if day in period]
        if not days:
            return 0.0
        return _IN_PERIOD if min(days) <= _LONG_DAYS else _IN_LONG_PERIOD

    @property
    def years(self) -> set[str]:
        """The years that the periods begin in."""
        return {str(period.start.year) for period in self.periods}


class Probability:
    """The probability of each hit of one question to one collection.

    Args:
        best: word id → the best BM25 score that any passage has for it.
        dated: None where the question names no date, or the documents have none.
        ordered: whether it asks for the first or the latest of a type that it names.
        stating: ids of passages with the facts that it asks for.
        replaced: stems for which the collection has other words; that it lacks them says nothing.
        denied: whether the facts say that it is not as the question takes for granted, or there was
            no meeting in the month that it names.
        others: finds the names of each of those whom the documents are not about.
    """

    def __init__(
        self,
        query: str,
        embedder: Embedder,
        best: Mapping[int, float],
        background: NoiseBackground,
        dated: Dated | None,
        *,
        ordered: bool = False,
        stating: Collection[str] = (),
        replaced: Collection[str] = (),
        denied: bool = False,
        others: Sequence[re.Pattern[str]] = (),
    ) -> None:
        self._background = background
        self._dated = dated
        self._most = _DENIED if denied else 1.0
        self._stating = stating
        self._others = [names for names in others if names.search(query)]
        self._rarest = 2.2 * math.log(1 + (background.passages + 0.5) / 0.5)
        """What `best` would be for a word that one passage has."""
        self._rarity: dict[str, float] = {}
        telling: set[str] = set()
        lacking_names = lacking_words = 0.0
        # With a capital, except the first word, which has it anyway; acronyms and numbers.
        names = {m[0] for m in _NAME.finditer(query) if m.start() or _SURE_NAME.match(m[0])}
        for word in _WORD.findall(query):
            if not (stems := terms(word)) or stems[0] in self._rarity:
                continue
            if word.lower() in _ASKING or (dated and DATE_WORD.fullmatch(word.lower())):
                continue
            rarity = max((best.get(i, 0.0) for i in embedder.words(word).indices), default=0.0)
            if not rarity and stems[0] in replaced:
                continue
            self._rarity[stems[0]] = rarity or self._rarest
            if rarity >= _NAME_RARITY:
                telling.add(word)
            if not rarity and word in names:
                lacking_names += self._rarest
            elif not rarity:
                lacking_words += self._rarest
        self._all = sum(self._rarity.values()) or 1.0
        vocabulary = min(1.0, math.log10(max(1, background.passages)) / _ALL_WORDS) ** 2
        self._of_question = (
            _BIAS
            + _NO_SUCH_NAME * lacking_names / self._all
            + _NO_SUCH_WORD * vocabulary * lacking_words / self._all
            + _FEW_WORDS * (1 - vocabulary)
            + _ORDERED * ordered
        )
        lacking = (lacking_names + lacking_words) / self._all
        is_english = not _ENGLISH.isdisjoint(_WORD.findall(query.lower()))
        is_foreign = lacking >= _FOREIGN_SHARE and not is_english
        self._foreign = embedder.sure_cosine if is_foreign else None
        self._full_names = [
            re.compile(rf"\b{first}\s+(?:[A-Z]\.\s*){{0,2}}{last}\b")
            for first, last in _PAIR.findall(query)[:_MOST_NAMES]
            if first in telling or last in telling
        ]

    def of(self, hit: SearchHit) -> float:
        """0..1; it reads the hit's text."""
        metadata = (str(value)[:_MAX_VALUE_CHARS] for value in hit.metadata.values())
        text = hit.text[:_MAX_TEXT_CHARS]
        there = different_terms(" ".join((hit.title, hit.section or "", text, *metadata)))
        found = sum(rarity for word, rarity in self._rarity.items() if word in there)
        whole = len(self._rarity) >= _LEAST_WORDS and self._rarity.keys() <= there
        distance = self._background.distance(hit.cosine)
        evidence = (
            self._of_question
            + _DISTANCE * max(_LEAST_DISTANCE, min(_MOST_DISTANCE, distance))
            + _SHARE * found / self._all
            + _MASS * math.log1p(_MASS_SCALE * found / self._rarest)
        )
        if self._foreign is not None:
            evidence = _FOREIGN_BIAS + _FOREIGN_STEEPNESS * (hit.cosine - self._foreign)
        if any(name.search(text) for name in self._full_names):
            evidence += _FULL_NAME
        if not all(names.search(text) for names in self._others):
            evidence += _OF_OTHERS
        if self._dated is not None and self._dated.outside:
            evidence += _OUTSIDE * (_YEAR_IN_TEXT if self._dated.years & there else 1.0)
        else:
            evidence += _ALL_FOUND * whole
            of_date = self._dated.evidence(hit) if self._dated is not None else 0.0
            evidence += of_date + _STATES_FACT * (of_date > 0 and hit.chunk_id in self._stating)
        probability = min(self._most, 1 / (1 + math.exp(-evidence)))
        return max(probability, _LITERAL) if hit.literal else probability

"""Parses a query into the texts to search for: itself, its sentences, a corrected reading.

A request to an agent often asks for several things. Each sentence is searched separately and the
best counts (measured: nDCG@10 .72 to .76 on StableToolBench, .444 to .449 on LiveMCPBench).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from rapidfuzz import process
from rapidfuzz.distance import OSA

from .words import STOPWORDS, fold, is_unspaced, split_words, stem, terms

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+|(?<=[。！？；])")
_MIN_SENTENCE_CHARS = 12
_MAX_SENTENCES = 8
_MIN_TYPO_CHARS = 4
_MAX_TYPOS = 12
"""Unknown words of a query that are compared with the vocabulary, which takes a millisecond or more
each where there are thousands of tools. A request has fewer; text that has more is not misspelt."""
_ENGLISH = frozenset(
    "the this that these those with what which who how and from my your about please".split()
)
"""Words that show that a query is English; the other languages of the glossary lack them."""
_OPERATOR = re.compile(r"\$\w+|\b(?:AND|OR|NOT|NEAR|XOR)\b")


def is_searchable(query: str) -> bool:
    """Whether it has a word other than operators, numbers and single letters."""
    words = split_words(_OPERATOR.sub(" ", query))
    return any((len(w) > 1 and not w.isdigit()) or is_unspaced(w) for w in words)


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """The texts to search for.

    Args:
        whole: the query as it was sent.
        sentences: its sentences; empty if there is only one.
        readings: the query with misspelt words corrected, or foreign words in English.
        unread: words that a reading in English leaves out, since they are in no table.
        corrected: share of the words of the readings that are corrections, 0 to 1.
        strange: share of the words of the query that are in no entry and, as it seems, in no
            language: invented or misspelt ones, 0 to 1. 0 for a query in another language.
        guessed: the readings may be wrong. They help to rank, but a match with them is no evidence.
    """

    whole: str
    sentences: tuple[str, ...] = ()
    readings: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    corrected: float = 0.0
    strange: float = 0.0
    guessed: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """All of them, the whole query first."""
        return (self.whole, *self.sentences, *self.readings)

    def is_evidence(self, text: str) -> bool:
        """Whether a match with one of the texts shows that an entry fits."""
        return not (self.guessed and text in self.readings)

    def corrections(self, text: str) -> float:
        """The share of the words of one of the texts that are corrections."""
        return self.corrected if text in self.readings else 0.0

    def strangeness(self, text: str) -> float:
        """The share of the words of one of the texts that are in no entry and no language."""
        return max(0.0, self.strange - self.corrections(text))

    def terms(self, text: str) -> list[str]:
        """The terms of one of the texts; what a reading leaves out is a word without a match."""
        return terms(" ".join((text, *self.unread)) if text in self.readings else text)


def parse_query(
    query: str,
    *,
    is_known: Callable[[str], bool],
    is_word: Callable[[str], bool],
    vocabulary: Callable[[], list[str]],
    glossary: Glossary,
) -> ParsedQuery:
    """Parse a query.

    Args:
        is_known: whether an entry that the caller sees contains a stem.
        is_word: whether a lower-cased word is in use, so that it needs no correction.
        vocabulary: the words that an unknown word may stand for.
    """
    english: list[str] = []
    corrected: list[str] = []
    unread: list[str] = []
    translated = misread = False
    corrections = compared = meant = strange = 0
    words = split_words(query)
    # Words of an English query are words of other languages by chance: "image", "convert".
    is_english = any(word.lower() in _ENGLISH for word in words)
    for word in words:
        lower = word.lower()
        if lower in STOPWORDS:
            corrected.append(word)
            continue
        meant += 1
        if is_unspaced(word) or not is_known(stem(lower)):
            in_use = is_word(lower)
            meanings = None if in_use and is_english else glossary.translate(word)
            if meanings:
                english += meanings
                translated = True
                continue
            near = None
            # Written as a common word, not as a name or an identifier.
            plain = len(word) >= _MIN_TYPO_CHARS and word.islower() and word.isascii()
            strange += plain and not in_use
            if not (in_use or is_unspaced(word)) and compared < _MAX_TYPOS:
                compared += 1
                near = _nearest(fold(word), vocabulary())
            if near is not None:
                corrected.append(near)
                english.append(near)
                corrections += 1
                # Few err in the first letter: "book" is hardly a misspelt "look".
                misread = misread or near[0] != fold(word)[0]
                continue
            unread.append(word)
        else:
            english.append(word)
        corrected.append(word)
    found = ParsedQuery(
        query, _sentences(query), corrected=corrections / max(1, meant), guessed=misread
    )
    if translated:
        reading = " ".join(dict.fromkeys(english))
        guessed = is_english or misread
        return replace(found, readings=(reading,), unread=tuple(unread), guessed=guessed)
    readings = (" ".join(corrected),) if corrections else ()
    return replace(found, readings=readings, strange=strange / max(1, meant))


def _sentences(query: str) -> tuple[str, ...]:
    stripped = [sentence.strip() for sentence in _SENTENCE_END.split(query)]
    found = [sentence for sentence in stripped if len(sentence) >= _MIN_SENTENCE_CHARS]
    return tuple(found[:_MAX_SENTENCES]) if len(found) > 1 else ()


def _nearest(word: str, vocabulary: list[str]) -> str | None:
    """The nearest word within one typing error, two in a word of eight letters or more."""
    if len(word) < _MIN_TYPO_CHARS or word.isdigit():
        return None
    errors = 1 if len(word) < 8 else 2
    found = process.extractOne(
        word, vocabulary, scorer=OSA.distance, score_cutoff=errors, processor=None
    )
    return None if found is None else str(found[0])


class Glossary:
    """English for words of other languages, since the model and the descriptions are English.

    The table, glossary.tsv, has the words with which people name the work of tools, in some fifteen
    languages: whole, by their start (`wetter*`), or inside unspaced text.
    """

    def __init__(self, table: str) -> None:
        self._whole: dict[str, str] = {}
        self._stems: dict[str, str] = {}
        self._unspaced: dict[str, str] = {}
        for line in table.splitlines():
            if line.startswith("#") or "\t" not in line:
                continue
            english, _, words = line.partition("\t")
            for word in words.split():
                plain = fold(word.rstrip("*"))
                if is_unspaced(word):
                    self._unspaced.setdefault(word.rstrip("*"), english)
                elif word.endswith("*"):
                    self._stems.setdefault(plain, english)
                else:
                    self._whole.setdefault(plain, english)
        self._longest_unspaced = max(map(len, self._unspaced), default=0)

    def translate(self, word: str) -> list[str]:
        """English for a word, or for each known word of an unspaced text; empty if unknown."""
        if is_unspaced(word):
            return self._inside(word)
        plain = fold(word)
        if plain in self._whole:
            return [self._whole[plain]]
        for end in range(len(plain), 2, -1):
            if plain[:end] in self._stems:
                return [self._stems[plain[:end]]]
        return []

    def _inside(self, text: str) -> list[str]:
        found, at = [], 0
        while at < len(text):
            for length in range(min(self._longest_unspaced, len(text) - at), 0, -1):
                english = self._unspaced.get(text[at : at + length])
                if english is not None:
                    found.append(english)
                    at += length
                    break
            else:
                at += 1
        return found


@cache
def load_glossary() -> Glossary:
    """The glossary of this package."""
    return Glossary(files(__package__).joinpath("glossary.tsv").read_text(encoding="utf-8"))

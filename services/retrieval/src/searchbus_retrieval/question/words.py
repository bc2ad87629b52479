"""Words of a question that are compared with passages: its phrase, its names, its synonyms, and
words that exclude each other.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Generic, TypeVar

from searchbus_vectors import STOPWORDS, Sparse, terms

_LONG = 8
"""Words from which on a phrase is a quotation rather than a name."""
_LEAST_PART = 4
"""Words of a quotation in one passage, where it goes on in the next one."""

_WORD = re.compile(r"\w+")
_SIGNS = re.compile(r"[+#]+")
"""They belong to the word before them: C++, C#."""
_LETTER = re.compile(r"[^\W\d_]")
"""With these signs it is another word; a longer word is the same, as in "growth+inflation"."""
_DASHES = "-\u00ad\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_SINGLE_QUOTES = "'`\u00b4\u02bc\u2018\u2019\u201a\u201b\u2032"
_DOUBLE_QUOTES = '"\u00ab\u00bb\u201c\u201d\u201e\u201f\u2033'
_CLASSES = {
    char: f"[{re.escape(same)}]"
    for same in (_DASHES, _SINGLE_QUOTES, _DOUBLE_QUOTES)
    for char in same
}


_DAMAGED = re.compile("[\u00c2-\u00f4](?=[\u0080-\u00bf]*[\u0080-\u009f])[\u0080-\u00bf]{1,3}")
"""UTF-8 that was read as Latin-1; with one of the control characters that no text has."""


def undamaged(text: str) -> str:
    """The text, in which UTF-8 that was read as Latin-1 is read anew: a dash in "3-1/2", say."""
    return text if text.isascii() else _DAMAGED.sub(_decoded, text)


def _decoded(match: re.Match[str]) -> str:
    try:
        return match[0].encode("latin-1").decode()
    except UnicodeDecodeError:
        return match[0]


_LOOKALIKES = str.maketrans("\u0130\u0131\u017f\u212a", "IisK")
"""The letters beyond ASCII that a pattern without regard to case takes for letters of ASCII."""


def plain_letters(query: str) -> str:
    """The query, of the same length, with these letters in ASCII: "SPR\u0130NG" becomes "SPRING".

    What such a pattern finds can then be looked up in a table by its small letters.
    """
    return query if query.isascii() else query.translate(_LOOKALIKES)


class Phrase:
    """The query without the stopwords and the punctuation around it ("What is the … ?").

    White space, case, and the many forms of dashes, quotes and accents make no difference.
    """

    def __init__(self, query: str) -> None:
        self.text = query
        core = _core(_composed(query.casefold()))
        self._sequence = _WORD.findall(core)
        self.is_long = len(self._sequence) >= _LONG
        self.has_words = len(self._sequence) > 1
        self._words = sorted(set(_WORD.findall(core)), key=len, reverse=True)
        self._core = core
        self._read_chars = 2 * sum(map(len, self._sequence)) + len(self._sequence)

    def stands_in(self, *texts: str) -> bool:
        """Whether one of the texts contains the phrase; False for a query without a word."""
        return bool(self._words) and any(map(self._stands_in, texts))

    def part_in(self, text: str) -> float:
        """The share of a long phrase that begins or ends the text, as where a passage was cut."""
        if not self.is_long:
            return 0.0
        wanted, count = self._sequence, len(self._sequence)
        least = max(_LEAST_PART, count // 2)
        end, start = (
            _composed(part.casefold())
            for part in (text[-self._read_chars :], text[: self._read_chars])
        )
        # Hardly any text has these words there; splitting it takes longer than looking for them.
        ends = all(word in end for word in wanted[:least])
        begins = all(word in start for word in wanted[-least:])
        if not ends and not begins:
            return 0.0
        tail, head = _WORD.findall(end), _WORD.findall(start)
        for words in range(count - 1, least - 1, -1):
            if tail[-words:] == wanted[:words] or head[:words] == wanted[-words:]:
                return words / count
        return 0.0

    def _stands_in(self, text: str) -> bool:
        text = undamaged(text).casefold()
        if not self._core.isascii():
            text = _composed(text)
        # Hardly any text has all the words; a pattern takes a hundred times as long to say so.
        for word in self._words:
            if word not in text:
                return False
        return self._pattern.search(text) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """Whole words only: "cook" is not found in "cookie", nor "C" in "C++"."""
        end = r"(?![\w+#])" if _LETTER.fullmatch(self._sequence[-1]) else r"(?!\w)"
        return re.compile(rf"(?<!\w){_pattern_of(self._core)}{end}")


def _composed(text: str) -> str:
    """The text with each accent in its letter (NFC); texts of PDFs have it behind the letter."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _core(query: str) -> str:
    words = list(_WORD.finditer(query))
    if not words:
        return ""
    telling = [word for word in words if word[0] not in STOPWORDS] or words
    end = telling[-1].end()
    signs = _SIGNS.match(query, end)
    return query[telling[0].start() : signs.end() if signs else end]


def _pattern_of(core: str) -> str:
    return r"\s+".join(
        "".join(_CLASSES.get(char) or re.escape(char) for char in word) for word in core.split()
    )


_NAME = re.compile(r"(?<!^)(?<![^A-Z][.?!:] )\b[A-Z]\w{2,}|\b[A-Z]{3,}\b")
_OPENING = re.compile(r"(?:^|(?<=[^A-Z][.?!:] ))[^\w\s]*([A-Z]\w{2,})")
_QUOTED = re.compile(
    r'["\u201c\u201d\u201e\u00ab\u00bb]([^"\u201c\u201d\u201e\u00ab\u00bb]{2,80})["\u201c\u201d\u00ab\u00bb]'
)
_WEEKDAYS = "sunday monday tuesday wednesday thursday friday saturday".split()
_MOST_NAMES = 6


def name_words(question: str) -> list[str]:
    """Words with a capital that do not begin the sentence, and acronyms; as they are written. Days
    of the week are left out."""
    found = dict.fromkeys(_NAME.findall(question))
    return [word for word in found if word.lower() not in _WEEKDAYS][:_MOST_NAMES]


def opening_words(question: str) -> list[str]:
    """The words with a capital that begin a sentence, which may be names, without stopwords."""
    found = dict.fromkeys(_OPENING.findall(question))
    return [word for word in found if word.lower() not in STOPWORDS][:_MOST_NAMES]


def is_name_in(texts: Iterable[str], word: str) -> bool:
    """Whether the texts that have the word write it with its capital, all of them."""
    small = word[0].lower() + word[1:]
    there = False
    for text in texts:
        if has_word(text, small):
            return False
        there = there or has_word(text, word)
    return there


def quoted(question: str) -> list[Phrase]:
    """The phrases that stand in quotes."""
    return [Phrase(text) for text in _QUOTED.findall(question)]


def has_word(text: str, start: str) -> bool:
    """Whether a word of the text begins so. Faster than a pattern, which tries every place."""
    place = text.find(start)
    while place > 0 and text[place - 1].isalnum():
        place = text.find(start, place + 1)
    return place >= 0


T = TypeVar("T")

SYNONYM_WEIGHT = 0.35
"""A word of the question weighs 1."""


class Phrases(Generic[T]):
    """Phrases of questions, by what they mean."""

    def __init__(self, declared: Mapping[T, Sequence[str]]) -> None:
        self._meant = {_stems(phrase): m for m, phrases in declared.items() for phrase in phrases}
        self._longest = max(map(len, self._meant), default=0)

    def said_in(self, question: str) -> dict[tuple[str, ...], T]:
        """The phrases that the question has, by their stems, in order."""
        stems = _stems(question) if self._meant else ()
        parts = (
            stems[start:end]
            for start in range(len(stems))
            for end in range(start + 1, min(start + self._longest, len(stems)) + 1)
        )
        return {part: self._meant[part] for part in parts if part in self._meant}


class Synonyms:
    """What the documents may say in place of a question's words, by phrases of these."""

    def __init__(self, phrases: Phrases[str], question: str) -> None:
        found = phrases.said_in(question)
        self.words = ", ".join(dict.fromkeys(found.values()))
        self.replaced = frozenset(stem for phrase in found for stem in phrase)
        """Stems of the question for which the documents have other words."""
        self.question = f"{question} ({self.words})" if self.words else question
        """The question with these words."""

    def added(self, own: Sparse, others: Sparse) -> Sparse:
        """The words of the question and those of the synonyms that it lacks.

        Args:
            own: of the question.
            others: of `words`.
        """
        known = set(own.indices)
        new = [index for index in others.indices if index not in known]
        return Sparse([*own.indices, *new], [*own.values, *[SYNONYM_WEIGHT] * len(new)])


def _stems(text: str) -> tuple[str, ...]:
    """Stems of all words, stopwords as they are: "out of work" is not "work"."""
    return tuple((terms(word) or [word])[0] for word in _WORD.findall(text.lower()))


class Directions:
    """What a question says of the direction of a change: to raise is not to lower.

    Args:
        groups: of words that mean the same direction; each group excludes the others.
        question: with words of one group; where it has none, or of several, everything agrees.

    Attributes:
        own_words: of the question's direction, as the profile has them; empty without one.
    """

    def __init__(self, groups: Sequence[Sequence[str]], question: str) -> None:
        stems = [frozenset(terms(" ".join(group))) for group in groups]
        asked = frozenset(terms(question))
        own = [number for number, group in enumerate(stems) if group & asked]
        self.own_words = tuple(groups[own[0]]) if len(own) == 1 else ()
        self._own = stems[own[0]] if len(own) == 1 else frozenset()
        self._others = frozenset().union(*stems) - self._own

    def __bool__(self) -> bool:
        return bool(self._own)

    def agree(self, sentence: str) -> bool:
        """False for a sentence that has words of another direction, and none of the question's."""
        words = frozenset(terms(sentence))
        return not self._own or bool(words & self._own) or not words & self._others

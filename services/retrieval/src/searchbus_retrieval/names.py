"""Finds what a question takes literally: rare names, and phrases in quotes.

Names say little to an embedding model, and the name of a person or an epidemic says which document
is meant. A name counts where hardly any passage of the collection has it: "Committee" is in all.
"Hardly any" is the square root of their number: 4 of 20, 100 of 10,000, 316 of 100,000.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from searchbus_vectors import STOPWORDS

from .literal import Phrase

__all__ = ["has_word", "is_name_in", "most_rare", "name_words", "opening_words", "quoted"]

_NAME = re.compile(r"(?<!^)(?<![^A-Z][.?!:] )\b[A-Z]\w{2,}|\b[A-Z]{3,}\b")
_OPENING = re.compile(r"(?:^|(?<=[^A-Z][.?!:] ))[^\w\s]*([A-Z]\w{2,})")
_QUOTED = re.compile(
    r'["\u201c\u201d\u201e\u00ab\u00bb]([^"\u201c\u201d\u201e\u00ab\u00bb]{2,80})["\u201c\u201d\u00ab\u00bb]'
)
_MOST_NAMES = 6


def name_words(question: str) -> list[str]:
    """Words with a capital that do not begin the sentence, and acronyms; as they are written."""
    return list(dict.fromkeys(_NAME.findall(question)))[:_MOST_NAMES]


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


def most_rare(passages: int) -> int:
    """Of so many passages, the most that may have a word that is rare."""
    return math.isqrt(max(0, passages))


def quoted(question: str) -> list[Phrase]:
    """The phrases that stand in quotes."""
    return [Phrase(text) for text in _QUOTED.findall(question)]


def has_word(text: str, start: str) -> bool:
    """Whether a word of the text begins so. Faster than a pattern, which tries every place."""
    place = text.find(start)
    while place > 0 and text[place - 1].isalnum():
        place = text.find(start, place + 1)
    return place >= 0

"""Finds what a question takes literally: rare names, and phrases in quotes.

Names say little to an embedding model, and the name of a person or an epidemic says which document
is meant. A name counts where hardly any passage of the collection has it: "Committee" is in all.
"""

from __future__ import annotations

import re

from .literal import Phrase

__all__ = ["LEAST_RARITY", "has_word", "name_words", "quoted"]

LEAST_RARITY = 9.5
"""Of `best_by_word`: a word that fewer than one in 150 passages have."""
_NAME = re.compile(r"(?<!^)(?<![^A-Z][.?!:] )\b[A-Z]\w{2,}|\b[A-Z]{3,}\b")
_QUOTED = re.compile(
    r'["\u201c\u201d\u201e\u00ab\u00bb]([^"\u201c\u201d\u201e\u00ab\u00bb]{2,80})["\u201c\u201d\u00ab\u00bb]'
)
_MOST_NAMES = 6


def name_words(question: str) -> list[str]:
    """Words with a capital that do not begin the sentence, and acronyms; as they are written."""
    return list(dict.fromkeys(_NAME.findall(question)))[:_MOST_NAMES]


def quoted(question: str) -> list[Phrase]:
    """The phrases that stand in quotes."""
    return [Phrase(text) for text in _QUOTED.findall(question)]


def has_word(text: str, start: str) -> bool:
    """Whether a word of the text begins so. Faster than a pattern, which tries every place."""
    place = text.find(start)
    while place > 0 and text[place - 1].isalnum():
        place = text.find(start, place + 1)
    return place >= 0

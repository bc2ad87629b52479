"""Finds the words of a query in a passage, in the order of the query.

Names and titles of programmes say little to an embedding model. A passage in which the query stands
word for word is what was looked for, however low its cosine is.

    phrase = Phrase("Who is Lisa D. Cook?")
    phrase.stands_in("Present: Lisa D. Cook, Michelle W. Bowman")     # True
"""

from __future__ import annotations

import re

from searchbus_vectors import STOPWORDS

__all__ = ["Phrase"]

_LONG = 8
"""Words from which on a phrase is a quotation rather than a name."""
_LEAST_PART = 4
"""Words of a quotation in one passage, where it goes on in the next one."""

_WORD = re.compile(r"\w+")
_WORD_CHARS = 40
"""At the end of a text, in which its last word stands."""
_DASHES = "-\u00ad\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d"
_SINGLE_QUOTES = "'`\u00b4\u02bc\u2018\u2019\u201a\u201b\u2032"
_DOUBLE_QUOTES = '"\u00ab\u00bb\u201c\u201d\u201e\u201f\u2033'
_CLASSES = {
    char: f"[{re.escape(same)}]"
    for same in (_DASHES, _SINGLE_QUOTES, _DOUBLE_QUOTES)
    for char in same
}


class Phrase:
    """The query without the stopwords and the punctuation around it ("What is the … ?").

    White space, case, and the many forms of dashes and quotes make no difference.
    """

    def __init__(self, query: str) -> None:
        self.text = query
        core = _core(query.casefold())
        self._sequence = _WORD.findall(core)
        self.is_long = len(self._sequence) >= _LONG
        self.has_words = len(self._sequence) > 1
        self._words = sorted(set(_WORD.findall(core)), key=len, reverse=True)
        # Whole words only, so that "cook" is not found in "cookie".
        self._pattern = re.compile(rf"(?<!\w){_pattern_of(core)}(?!\w)")

    def stands_in(self, *texts: str) -> bool:
        """Whether one of the texts contains the phrase; False for a query without a word."""
        return bool(self._words) and any(map(self._stands_in, texts))

    def part_in(self, text: str) -> float:
        """The share of a long phrase that begins or ends the text, as where a passage was cut."""
        if not self.is_long:
            return 0.0
        wanted, count = self._sequence, len(self._sequence)
        read_chars = 2 * sum(map(len, wanted)) + count
        end, beginning = text[-read_chars:].casefold(), text[:read_chars].casefold()
        # Hardly any passage ends or begins with a word of the phrase.
        last, first = _WORD.findall(end[-_WORD_CHARS:])[-1:], _WORD.search(beginning)
        tail = _WORD.findall(end) if last and last[0] in self._words else []
        head = _WORD.findall(beginning) if first and first[0] in self._words else []
        for words in range(count - 1, max(_LEAST_PART, count // 2) - 1, -1):
            if tail[-words:] == wanted[:words] or head[:words] == wanted[-words:]:
                return words / count
        return 0.0

    def _stands_in(self, text: str) -> bool:
        text = text.casefold()
        # Hardly any text has all the words; a pattern takes a hundred times as long to say so.
        if not all(word in text for word in self._words):
            return False
        return self._pattern.search(text) is not None


def _core(query: str) -> str:
    words = list(_WORD.finditer(query))
    if not words:
        return ""
    telling = [word for word in words if word[0] not in STOPWORDS] or words
    return query[telling[0].start() : telling[-1].end()]


def _pattern_of(core: str) -> str:
    return r"\s+".join(
        "".join(_CLASSES.get(char) or re.escape(char) for char in word) for word in core.split()
    )

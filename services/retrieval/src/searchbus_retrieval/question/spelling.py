"""Corrects misspelt words of a question that neither the model nor any passage knows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from string import ascii_lowercase

_WORD = re.compile(r"(?<![\w'\u2019-])[a-z]{5,20}(?![\w'\u2019-])")
"""In small letters only: a name that no passage has is another matter than a misspelt word."""
_QUOTED = re.compile(r"[\"\u201c\u201d][^\"\u201c\u201d]*[\"\u201c\u201d]")
_WORD_OR_QUOTED = re.compile(rf"{_QUOTED.pattern}|{_WORD.pattern}")
MOST_WORDS = 3
"""Each costs some 15 ms; a text with more unknown words is in another language."""


def doubtful_words(question: str, is_word: Callable[[str], bool]) -> list[str]:
    """The words of the question, outside of quotes, that may be misspelt."""
    plain = _QUOTED.sub(" ", question)
    return [word for word in dict.fromkeys(_WORD.findall(plain)) if not is_word(word)]


def near_words(word: str, is_word: Callable[[str], bool]) -> list[str]:
    """The words that the model knows, one typing error away, with the same first letter."""
    return [near for near in dict.fromkeys(_edits(word)) if near[0] == word[0] and is_word(near)]


def _edits(word: str) -> Iterator[str]:
    """All texts one error away (P. Norvig, How to Write a Spelling Corrector, 2007)."""
    for place in range(1, len(word) + 1):
        left, right = word[:place], word[place:]
        if right:
            yield left + right[1:]
        if len(right) > 1:
            yield left + right[1] + right[0] + right[2:]
        for letter in ascii_lowercase:
            yield left + letter + right
            if right:
                yield left + letter + right[1:]


def with_words(question: str, corrected: Mapping[str, str]) -> str:
    """The question with other words in place of some, outside of quotes."""
    return _WORD_OR_QUOTED.sub(lambda match: corrected.get(match[0], match[0]), question)

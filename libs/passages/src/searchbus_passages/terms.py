"""The words of a text by which texts are compared with a question."""

from __future__ import annotations

import re

_WORD = re.compile(r"\w+")
_SUFFIX = re.compile(r"(?<=\w{3})(?:ing|ed|es|s|e)$")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
_ASKING_WORDS = frozenset(
    "about and any are between been but can could did does for from had has have her his how into "
    "its many much not our she should such than that the their them then there these they this was "
    "were what when where which while who whom whose why will with would you your".split()
)


def terms(text: str) -> list[str]:
    """The words without their endings; of scripts without spaces, pairs of characters."""
    found = []
    for word in _WORD.findall(text.lower()):
        if _UNSPACED.search(word):
            found += [word[i : i + 2] for i in range(max(1, len(word) - 1))]
        elif len(word) >= 3 and word not in _ASKING_WORDS:
            found.append(_SUFFIX.sub("", word))
    return found

"""The sentences of a page that answer a query best, each with a link to its place.

The link is a text fragment (https://wicg.github.io/scroll-to-text-fragment/): browsers scroll to
the words and mark them. It names the first and the last words of a sentence as people see them, so
Markdown is taken away first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from searchbus_passages import bm25, sentences, terms

MOST = 10
_MAX_SENTENCES = 20_000
_MAX_CHARS = 600
_LEAST_SHARE = 0.3
"""A sentence with less of the best one's score is left out."""
_EDGE_WORDS = 6
_MARKUP = re.compile(r"^(?:#{1,6}|[-*+>]|\d+[.)])\s+|[*_`~]{1,3}(?=\S)|(?<=\S)[*_`~]{1,3}")
_LINK = re.compile(r"\[([^\[\]]*)\]\([^()\s]*\)")


class Highlight(msgspec.Struct):
    """`text[start:end]` of a page; the best one has the score 1."""

    start: int
    end: int
    score: float


def highlights(text: str, query: str) -> list[Highlight]:
    """The best sentences, best first; none without a word of the query."""
    wanted = set(terms(query))
    spans = [span for span, _ in zip(sentences(text), range(_MAX_SENTENCES), strict=False)]
    scores = bm25(wanted, [terms(text[span.start : span.end]) for span in spans])
    order = sorted(range(len(spans)), key=lambda i: (-scores[i], i))[:MOST]
    return [
        Highlight(
            spans[i].start, min(spans[i].end, spans[i].start + _MAX_CHARS), round(scores[i], 3)
        )
        for i in order
        if scores[i] >= _LEAST_SHARE
    ]


def text_fragment(url: str, text: str) -> str | None:
    """The URL of a sentence; None for a row of a table, whose words stand in several cells."""
    shown = _LINK.sub(r"\1", text.strip().partition("\n")[0])
    words = _MARKUP.sub("", shown).split()
    if not words or "|" in shown:
        return None
    if len(words) <= 2 * _EDGE_WORDS:
        part = _encoded(words)
    else:
        part = f"{_encoded(words[:_EDGE_WORDS])},{_encoded(words[-_EDGE_WORDS:])}"
    return f"{url.partition('#')[0]}#:~:text={part}"


def _encoded(words: Sequence[str]) -> str:
    # A dash marks a prefix or a suffix there, so that it is encoded as well.
    return quote(" ".join(words), safe="").replace("-", "%2D")

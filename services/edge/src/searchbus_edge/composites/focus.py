"""The part of each passage that answers the question, and which passages have none.

Each sentence is scored with its source's title and what stands above it, by its words and its
meaning, beside the sentences of all passages; the best sentence and the place that the search gave
decide which passages are shown. The run with the highest scores is the passage's part, longer of
the first one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence, Set
from typing import NamedTuple

from searchbus_passages import Ruler, Span, bm25, contexts, excerpt, sentences, terms

from .passages import SURE_COSINE

Compare = Callable[[Sequence[str]], Awaitable[list[float] | None]]
"""The cosine of each sentence to the question, where it can be had."""
_FIRST_TOKENS, _OTHER_TOKENS = 300, 200
_MOST_PASSAGES = 4
_MOST_COMPARED = 16
"""The likeliest sentences by words and place: 20 found no more, 12 less."""
_RANK_SHARE = 0.1
"""What its place adds to the first passage, since dates and names gave it; half to the second."""
_SHARE_OF_BEST = 0.65
"""A passage whose best sentence has less of the best one's score is beside the point."""
_LEAST_SHARE = 1 / 3
"""The share of the question's words that a sentence needs to make up for a passage that is far."""
_MAX_CONTEXT_CHARS = 200
_SHORT = re.compile(r"\b(?:\d{1,2}|[a-z]\d)\b")


def _words(text: str) -> list[str]:
    """Its terms, and short numbers and names with them: exit code 19, form B5."""
    return [*terms(text), *_SHORT.findall(text.lower())]


class Text(NamedTuple):
    """A passage that may answer, with its source's title. `sure`: it answers, as far as the search
    can tell; else one of its sentences has to."""

    title: str
    text: str
    sure: bool = True


class Focus(NamedTuple):
    """A part of a passage (its number), with what stands above it, outside of it."""

    passage: int
    span: Span
    context: str


class _Sentences:
    """The sentences of one passage, each as it is read: below its source's title and its context.

    A statement does not repeat its date, nor the chapter on a boat the boat's name.
    """

    def __init__(self, passage: Text) -> None:
        self.text = text = passage.text
        title = passage.title[:_MAX_CONTEXT_CHARS]
        self.spans = list(sentences(text))
        self.above = contexts(text, self.spans)
        self.read = [
            "\n".join((title, *self._shown(above), text[span.start : span.end]))
            for span, above in zip(self.spans, self.above, strict=True)
        ]

    def part(self, scores: Sequence[float], most: int) -> Focus | None:
        """The best run of at most `most` tokens."""
        # Squares, so that many poor sentences do not outweigh a good one.
        squares = [score * score for score in scores]
        span = excerpt(self.text, Ruler(self.text), most, lambda _: squares)
        if span is None:
            return None
        inside = [
            n for n, own in enumerate(self.spans) if own.start < span.end and own.end > span.start
        ]
        best = max(inside, key=lambda n: scores[n])
        outside = [above for above in self.above[best] if above.start < span.start]
        return Focus(0, span, "\n".join(self._shown(outside)))

    def _shown(self, spans: Sequence[Span]) -> list[str]:
        return [self.text[s.start : min(s.end, s.start + _MAX_CONTEXT_CHARS)] for s in spans]


async def focus(
    question: str, texts: Sequence[Text], compare: Compare | None = None
) -> list[Focus]:
    """The parts that answer, best first; of some passages there is none. Without `compare` the
    words decide."""
    wanted = set(_words(question))

    def prepared() -> tuple[list[_Sentences], list[list[str]], list[float]]:
        own = [_Sentences(text) for text in texts]
        words = [_words(read) for one in own for read in one.read]
        return own, words, bm25(wanted, words)

    passages, words, scores = await asyncio.to_thread(prepared)
    answering = {n for n, text in enumerate(texts) if text.sure}
    if compare is not None:
        read = [sentence for passage in passages for sentence in passage.read]
        of = [n for n, passage in enumerate(passages) for _ in passage.read]
        likely = sorted(range(len(read)), key=lambda n: -scores[n] - _of_place(of[n]))
        likely = likely[:_MOST_COMPARED]
        cosines = await compare([read[n] for n in likely])
        if cosines:
            near = dict(zip(likely, cosines, strict=True))
            answering |= {
                of[n] for n in near if near[n] >= SURE_COSINE and _speaks_of(wanted, words[n])
            }
            shown = [cosine for n, cosine in near.items() if of[n] in answering] or [0.0]
            least, most = min(shown), max(shown)
            scores = [
                (score + max(0.0, near.get(n, least) - least) / (most - least or 1.0)) / 2
                for n, score in enumerate(scores)
            ]
    return await asyncio.to_thread(_chosen, passages, answering, scores)


def _of_place(place: int) -> float:
    return _RANK_SHARE / (1 + place)


def _speaks_of(wanted: Set[str], words: Sequence[str]) -> bool:
    """Whether a sentence has each number of the question, and enough of all of its words."""
    there = wanted & set(words)
    lacking = wanted - there
    return len(there) >= _LEAST_SHARE * len(wanted) and not any(w[0].isdigit() for w in lacking)


def _chosen(
    passages: Sequence[_Sentences], answering: Set[int], scores: Sequence[float]
) -> list[Focus]:
    rest = iter(scores)
    own = [[next(rest) for _ in passage.spans] for passage in passages]
    worth = {n: max(own[n]) + _of_place(n) for n in answering if own[n]}
    floor = _SHARE_OF_BEST * max(worth.values(), default=0.0)
    ranked = sorted(worth, key=lambda n: (-worth[n], n))
    parts = (
        (n, passages[n].part(own[n], _OTHER_TOKENS if place else _FIRST_TOKENS))
        for place, n in enumerate(ranked[:_MOST_PASSAGES])
        if worth[n] >= floor
    )
    return [part._replace(passage=n) for n, part in parts if part is not None]

"""research_brief's arguments and answer, and the answer within a budget of tokens.

Each sentence is scored with its source's title and what stands above it, by its words and its
meaning, beside the sentences of all passages; the best sentence and the place that the search gave
decide which passages are shown. The run with the highest scores is the passage's part, longer of
the first one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence, Set
from typing import Annotated, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType

from searchbus_contracts import ErrorCode, Fault, encode
from searchbus_contracts.codec import doc
from searchbus_contracts.queries import too_small
from searchbus_contracts.visible import marked, unmarked
from searchbus_passages import (
    DEFAULT_TOKENS,
    BudgetTooSmallError,
    Layout,
    Ruler,
    Span,
    bm25,
    contexts,
    excerpt,
    holds,
    sentences,
    terms,
)

from .gathering import Coverage, Failures
from .passages import SURE_COSINE
from .sources import UNTRUSTED, Budget, Quoted, SourceHit

Compare = Callable[[Sequence[str]], Awaitable[list[float] | None]]
"""The cosine of each sentence to the question, where it can be had."""
_FIRST_TOKENS, _OTHER_TOKENS = 300, 200
_MOST_PASSAGES = 4
_MOST_COMPARED = 16
"""The likeliest sentences by words and place: 20 found no more, 12 less."""
_RANK_SHARE = 0.6
"""What its place adds to the first passage, half to the second: the search knows dates, names and
facts, a sentence alone does not."""
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
    """The parts that answer, best first, if any. Without `compare` the words decide."""
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
    enough = len(there) >= max(1, _LEAST_SHARE * len(wanted))
    return enough and not any(word[0].isdigit() for word in lacking)


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


_HASH_DIGITS = 16
"""Each is a token; they suffice to tell a changed text of one id."""


class Brief(Struct, forbid_unknown_fields=True):
    """Arguments of research_brief."""

    question: Annotated[str, doc("The question to find evidence for.")]
    max_tokens: Budget = DEFAULT_TOKENS
    cursor: Annotated[
        str | None, doc("Cursor of a truncated answer, for the sources behind it.")
    ] = None


class BriefPassage(Struct):
    """A passage that speaks to the question."""

    citation: Annotated[int, doc("Number of its source.")]
    text: Annotated[str, doc(UNTRUSTED)]
    start: (
        Annotated[
            int,
            doc(
                "The passage, without marks of untrusted text, is its source's text "
                "from here, in characters."
            ),
        ]
        | UnsetType
    ) = UNSET
    end: Annotated[int, doc("To here, exclusive.")] | UnsetType = UNSET
    context: (
        Annotated[
            str,
            doc(
                "The heading, the table's header or the list's lead that stands above "
                f"the passage. {UNTRUSTED}"
            ),
        ]
        | UnsetType
    ) = UNSET


class CitedSource(Struct):
    """A source of the brief."""

    citation: int
    id: str
    title: Annotated[str, doc(UNTRUSTED)]
    url: str
    source: Annotated[str, doc("documents/<collection> or web.")]
    content_hash: (
        Annotated[
            str,
            doc(
                f"The first {_HASH_DIGITS} digits of the SHA-256, in hex, of its whole "
                "text in UTF-8; of another text the passages' places are no longer true."
            ),
        ]
        | UnsetType
    ) = UNSET


class BriefAnswer(Struct, omit_defaults=True):
    """The answer of research_brief; each thing is said once, since models pay for all of it."""

    untrusted: Annotated[bool, doc("Whether others wrote texts and titles.")]
    passages: Annotated[list[BriefPassage], doc("Best first.")]
    sources: list[CitedSource]
    failures: Failures = []
    coverage: Coverage = []
    truncated: Annotated[bool, doc("Whether passages were cut or left out for max_tokens.")] = False
    cursor: Annotated[
        str | None, doc("For the sources that were left out; null: there are none.")
    ] = None


def passage_of(citation: int, quoted: Quoted) -> BriefPassage:
    """A passage of a source, with its place where that is known."""
    if quoted.anchor is None:
        return BriefPassage(citation, quoted.text)
    return BriefPassage(citation, quoted.text, start=quoted.anchor.start, end=quoted.anchor.end)


def source_of(citation: int, hit: SourceHit, passages: Sequence[Quoted]) -> CitedSource:
    """A source, with the hash of the text in which its passages have their places."""
    hashes = (quoted.anchor.content_hash for quoted in passages if quoted.anchor is not None)
    known = next(filter(None, hashes), None)
    return CitedSource(
        citation, hit.id, hit.title, hit.url, hit.source, known[:_HASH_DIGITS] if known else UNSET
    )


async def focused(
    question: str,
    hits: Sequence[SourceHit],
    passages: Sequence[tuple[int, Quoted]],
    compare: Compare | None = None,
) -> list[BriefPassage]:
    """The parts that answer the question, best first; of some passages there is none. A passage's
    number is its citation; without `compare` the words decide."""
    inner = [_Inner(passage_of(number, quoted)) for number, quoted in passages]
    texts = [
        Text(hits[number].title, one.text, quoted.sure)
        for (number, quoted), one in zip(passages, inner, strict=True)
    ]
    found = await focus(question, texts, compare)
    return [inner[one.passage].part(one.span, one.context) for one in found]


def offset_of(cursor: str | None) -> int:
    """The number of sources before a page; raises Fault(invalid_argument)."""
    if cursor is None:
        return 0
    if re.fullmatch(r"[1-9][0-9]?", cursor, re.ASCII) is None:
        raise Fault(
            ErrorCode.INVALID_ARGUMENT,
            "cursor: unknown. Give the one of the answer before, or omit it to start.",
        )
    return int(cursor)


async def fit_brief(
    question: str,
    answer: BriefAnswer,
    ranks: Sequence[int],
    most: int,
    compare: Compare | None = None,
) -> BriefAnswer:
    """The answer in at most `most` tokens: passages share them, the last ones are left out.

    Each is cut to the sentences that answer, by their words and, with `compare`, their meaning;
    `ranks` are those of the sources among all that were found. Raises Fault(invalid_argument) where
    the budget is too small for one passage.
    """
    if await asyncio.to_thread(lambda: holds(encode(answer), most)):
        return answer
    # The cursor leads to what is behind the last source, so the sources keep their order.
    inner = [_Inner(passage) for passage in sorted(answer.passages, key=lambda p: p.citation)]

    def fitted(spans: Sequence[Span]) -> BriefAnswer:
        shown = [text.part(span) for text, span in zip(inner, spans, strict=False)]
        cited = {passage.citation for passage in shown}
        left_out = {passage.citation for passage in answer.passages} - cited
        return msgspec.structs.replace(
            answer,
            passages=shown,
            sources=[source for source in answer.sources if source.citation in cited],
            truncated=True,
            cursor=str(ranks[min(left_out) - 1]) if left_out else None,
        )

    try:
        layout = await asyncio.to_thread(
            Layout, [text.text for text in inner], most, lambda spans: encode(fitted(spans))
        )
    except BudgetTooSmallError as error:
        raise too_small(most, error.least) from None
    sentences = layout.sentences
    cosines = await compare([s for own in sentences for s in own]) if compare else None
    scores = await asyncio.to_thread(_scores, question, sentences, cosines)
    return fitted(await asyncio.to_thread(layout.fill, scores))


def _scores(
    question: str, sentences: Sequence[Sequence[str]], cosines: Sequence[float] | None
) -> list[list[float]]:
    """The scores of the sentences of each passage: BM25 within it, and the cosine of each."""
    wanted = set(terms(question))
    scores = [bm25(wanted, [terms(sentence) for sentence in own]) for own in sentences]
    if not cosines:
        return scores
    least, most = min(cosines), max(cosines)
    nearness = iter((cosine - least) / (most - least or 1.0) for cosine in cosines)
    return [[(score + next(nearness)) / 2 for score in own] for own in scores]


class _Inner:
    """A passage without its marks of untrusted text."""

    def __init__(self, passage: BriefPassage) -> None:
        self.mark, self.text = unmarked(passage.text)
        self._passage = passage

    def part(self, span: Span, context: str = "") -> BriefPassage:
        """The passage with a part of its text, and with what stands above it where that is new."""
        if span == (0, len(self.text)):
            return self._passage
        passage = msgspec.structs.replace(
            self._passage,
            text=self._shown(self.text[span.start : span.end]),
            context=self._shown(context) if context else self._passage.context,
        )
        if isinstance(passage.start, int):
            first = passage.start
            passage.start, passage.end = first + span.start, first + span.end
        return passage

    def _shown(self, text: str) -> str:
        return text if self.mark is None else marked(text, self.mark)

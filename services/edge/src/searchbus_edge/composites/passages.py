"""Picks the passages that answer a question: few, of different content, none beside the point.

By their words here, and by their meaning where the retrieval service compares them in time: an
answer by words alone is better than none.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from opentelemetry import metrics

from searchbus_bus import Bus, Directory
from searchbus_contracts import Actor, Fault
from searchbus_contracts.retrieval import (
    MAX_COMPARED,
    MAX_COMPARED_CHARS,
    MAX_QUERY_CHARS,
    SimilarityReply,
    SimilarityRequest,
)
from searchbus_passages import sentences, terms

log = logging.getLogger("searchbus.edge")

MAX_PASSAGES = 2
"""Passages of one page."""
MAX_PASSAGE_CHARS = 1200
MAX_CANDIDATES = 12
"""Candidates of one page whose meaning is compared, which takes up to 40 ms for each."""
_LEAST_SHARE = 0.4
"""The share of the question's words below which a page's passage is beside the point."""
_SHARE_OF_BEST = 0.6
SURE_COSINE, _BEHIND_BEST, _LEAST_COSINE = 0.62, 0.05, 0.55
"""A passage answers by its meaning from the first on, unless it is so far behind the nearest; by
its words alone it needs the last. The scale is the default model's."""
_LEAST_BEYOND_QUESTION = 3
"""Words; a heading that repeats the question answers nothing."""
_SHINGLE_WORDS = 4
_WORD = re.compile(r"\w+")
_BLANK_LINES = re.compile(r"\n\s*\n")
_MARKS_OF_UNTRUSTED_TEXT = re.compile(r"</?(untrusted_text_\w+)>")
_SERVICE = "retrieval"
_COMPARING_S = 5.0
_COMPARING_SHARE = 0.5
"""The share of the time that is left."""
_missing = metrics.get_meter("searchbus.edge").create_counter(
    "searchbus.similarities.failed",
    description="Requests for the similarity of texts that failed; words alone decided.",
)


@dataclass(frozen=True, slots=True)
class PassageCandidate:
    """A passage of a page, and the share of the question's words that it has."""

    text: str
    share: float


def candidates(question: str, text: str, snippet: str = "") -> list[PassageCandidate]:
    """The passages of a page with the most words of the question; of equal ones the first. Each is
    exactly a part of `text` (empty: unreadable), but for the search's snippet."""
    wanted = set(terms(question))
    shares = {}
    for passage in (snippet.strip()[:MAX_PASSAGE_CHARS], *cut(text)):
        words = set(terms(passage))
        if len(words - wanted) >= _LEAST_BEYOND_QUESTION:
            shares[passage] = len(words & wanted) / (len(wanted) or 1)
    ranked = sorted(shares, key=lambda passage: -shares[passage])
    return [PassageCandidate(passage, shares[passage]) for passage in ranked[:MAX_CANDIDATES]]


def chosen(found: Sequence[PassageCandidate], cosines: Sequence[float] | None = None) -> list[str]:
    """The passages that answer, best first; without cosines to the question their words decide."""
    most = max((candidate.share for candidate in found), default=0.0)
    floor = max(_LEAST_SHARE, _SHARE_OF_BEST * most)
    scores = {c.text: c.share for c in found if c.share >= floor}
    if cosines:
        least, best = min(cosines), max(cosines)
        near = max(SURE_COSINE, best - _BEHIND_BEST)
        scores = {
            candidate.text: candidate.share / (most or 1.0)
            + (cosine - least) / (best - least or 1.0)
            for candidate, cosine in zip(found, cosines, strict=True)
            if cosine >= near or (candidate.share >= floor and cosine >= _LEAST_COSINE)
        }
    ranked = sorted(scores, key=lambda passage: -scores[passage])
    return distinct(ranked)[:MAX_PASSAGES]


def from_page(question: str, text: str, snippet: str = "") -> list[str]:
    """The passages of a page that answer a question, by their words alone."""
    return chosen(candidates(question, text, snippet))


def distinct(passages: Iterable[str], known: Iterable[str] = ()) -> list[str]:
    """The passages that do not repeat an earlier or a known one; half of the words is a repeat."""
    seen = [_shingles(passage) for passage in known]
    kept = []
    for passage in passages:
        own = _shingles(passage)
        if not any(len(own & other) * 2 >= min(len(own), len(other)) for other in seen):
            kept.append(passage)
            seen.append(own)
    return kept


def cut(text: str, most_chars: int = MAX_PASSAGE_CHARS) -> Iterator[str]:
    """Paragraphs; one of more characters is cut between sentences."""
    start = 0
    for blank in (*_BLANK_LINES.finditer(text), None):
        end = len(text) if blank is None else blank.start()
        first = last = None
        for span in sentences(text, start, end):
            if first is not None and last is not None and span.end - first > most_chars:
                yield text[first:last]
                first = None
            first, last = span.start if first is None else first, span.end
        if first is not None:
            yield text[first:last]
        start = end if blank is None else blank.end()


def _shingles(passage: str) -> set[tuple[str, ...]]:
    words = _WORD.findall(_MARKS_OF_UNTRUSTED_TEXT.sub("", passage).lower())
    count = max(1, len(words) - _SHINGLE_WORDS + 1)
    return {tuple(words[i : i + _SHINGLE_WORDS]) for i in range(count)}


class Similarity:
    """How near texts are to a question, by the model of the retrieval service, if available."""

    def __init__(self, bus: Bus, directory: Directory) -> None:
        self._bus = bus
        self._directory = directory

    async def cosines(
        self, question: str, texts: Sequence[str], *, actor: Actor, timeout_s: float
    ) -> list[float] | None:
        """The cosine of each text's beginning; None where they are too many, or not in time."""
        there = self._directory.listed(_SERVICE) and not self._bus.fleet.is_silent(_SERVICE)
        if not 0 < len(texts) <= MAX_COMPARED or not there:
            return None
        request = SimilarityRequest(
            query=question[:MAX_QUERY_CHARS],
            texts=tuple(text[:MAX_COMPARED_CHARS] for text in texts),
        )
        try:
            reply = await self._bus.request(
                self._bus.subjects.endpoint(_SERVICE, "similarity"), request, SimilarityReply,
                service=_SERVICE, actor=actor,
                timeout_s=min(_COMPARING_S, timeout_s * _COMPARING_SHARE),
            )  # fmt: skip
        except Fault as fault:
            _missing.add(1, {"code": fault.code})
            log.info("passages are chosen by words alone: %s", fault)
            return None
        return list(reply.cosines) if len(reply.cosines) == len(texts) else None

"""Explains a ranking: the legs and boosts of each hit, and what was left out.

Everything is read off the finished ranking, so that a search without `explain` does none of it and
no step of the ranking has to keep a record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from searchbus_contracts.retrieval import Explanation, LeftOut, Leg, Reading, SearchHit
from searchbus_vectors import Hit, Match

from .question import Question
from .ranking import Preference

__all__ = ["MAX_LEFT_OUT", "Answer", "Ranked", "explanations", "left_out", "reading_of"]

MAX_LEFT_OUT = 20
"""The best candidates that were left out; more would not be read."""
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Ranked:
    """Hits, best first.

    Args:
        best: word id → the best BM25 score that any passage has for it.
        has_dates: whether there are documents of all dates that the question names, or near them.
        why: id → explanation, where one was asked for.
    """

    hits: list[Hit]
    best: Mapping[int, float]
    has_dates: bool = False
    why: Mapping[str, Explanation] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search of one collection gave; `left_out` and `reading` where it explains itself."""

    hits: list[SearchHit]
    left_out: tuple[LeftOut, ...] = ()
    reading: Reading | None = None


def explanations(
    question: Question,
    overall: Sequence[Match],
    preferred: Sequence[tuple[Preference, Sequence[Match]]],
    ranked: Sequence[Hit],
) -> dict[str, Explanation]:
    """Id → why the hit stands where it does.

    Args:
        overall: what the search over all documents found.
        preferred: what the search for each preference found.
        ranked: the final ranking of those that were read; what its scores have beyond fusion and
            boosts comes from the other documents and passages: `Question.ordered`.
    """
    fused: dict[str, Match] = {}
    boosts: dict[str, dict[str, float]] = {hit.id: question.lifts(hit) for hit in ranked}
    for matches in (overall, *(matches for _, matches in preferred)):
        for match in matches:
            if match.id not in fused or fused[match.id].score < match.score:
                fused[match.id] = match
    for preference, matches in preferred:
        for match in matches:
            if match.id in boosts:
                known = boosts[match.id]
                known[preference.name] = known.get(preference.name, 0.0) + preference.lift
    explained = {}
    for rank, hit in enumerate(ranked, 1):
        of_hit = boosts[hit.id]
        of_hit["order"] = hit.score - fused[hit.id].score - sum(of_hit.values())
        explained[hit.id] = _explanation(rank, fused[hit.id], of_hit)
    return explained


def _explanation(rank: int, fused: Match, boosts: Mapping[str, float]) -> Explanation:
    assert fused.legs is not None, "searched without explain"
    legs = fused.legs
    words = None
    if legs.words_rank is not None:
        words = Leg(rank=legs.words_rank, score=_round(legs.bm25), share=_round(legs.words_share))
    return Explanation(
        rank=rank,
        meaning=Leg(
            rank=legs.meaning_rank,
            score=_round(fused.cosine),
            share=_round(fused.score - legs.words_share),
        ),
        words=words,
        boosts={name: _round(boost) for name, boost in boosts.items() if _round(boost)},
    )


def left_out(
    hits: Sequence[SearchHit], reason: str, *, floor: float | None = None
) -> tuple[LeftOut, ...]:
    """Hits that are left out for one reason, best first.

    Args:
        floor: the least cosine that they miss, or the least relevance of those that are far.
    """
    return tuple(
        LeftOut(
            collection=hit.collection,
            document_id=hit.document_id,
            chunk_id=hit.chunk_id,
            title=hit.title,
            reason=reason,
            score=_round(hit.score),
            cosine=_round(hit.cosine),
            relevance=hit.relevance,
            floor=None if floor is None else _round(floor),
            explanation=hit.explanation,
        )
        for hit in hits[:MAX_LEFT_OUT]
    )


def reading_of(question: Question, ranked: int) -> Reading:
    """How the question was read."""
    preferences = {preference.name: preference.lift for preference in question.preferences}
    words = f"{question.spelled} {question.synonyms.words}".rstrip()
    return Reading(words=words, preferences=preferences, order=question.order, ranked=ranked)


def _round(value: float) -> float:
    return round(value, _DIGITS) + 0.0  # no negative zero

"""Explains a ranking: the legs and boosts of each hit, and what was left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from searchbus_contracts.retrieval import (
    LEAST_RELEVANCE,
    Explanation,
    LeftOut,
    Leg,
    Reading,
    SearchHit,
    SearchReply,
)
from searchbus_vectors import Hit, Match

from .preferences import Preference, best_matches
from .question import Question

MAX_LEFT_OUT = 20
"""The best candidates that were left out; more would not be read."""
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class RankedHits:
    """Hits, best first.

    Args:
        best: word id → the best BM25 score that any passage has for it.
        is_all: whether there are no other passages.
        has_dates: whether there are documents of all dates that the question names, or near them.
        why: id → explanation, where one was asked for.
    """

    hits: list[Hit]
    best: Mapping[int, float]
    is_all: bool = True
    has_dates: bool = False
    why: Mapping[str, Explanation] = field(default_factory=dict)

    def followed_by(self, others: RankedHits) -> RankedHits:
        """These hits, then those of a later search, none of which has a better score."""
        least = self.hits[-1].score if self.hits else math.inf
        lowered = [hit.scored(min(hit.score, least)) for hit in others.hits]
        why = {**self.why}
        for hit, now in zip(others.hits, lowered, strict=True):
            if (reason := others.why.get(hit.id)) is not None:
                order = _round(reason.boosts.get("order", 0.0) + now.score - hit.score)
                why[hit.id] = msgspec.structs.replace(
                    reason,
                    rank=reason.rank + len(self.hits),
                    boosts={**reason.boosts, "order": order},
                )
        return replace(self, hits=[*self.hits, *lowered], is_all=others.is_all, why=why)


@dataclass(frozen=True, slots=True)
class CollectionAnswer:
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
    fused = best_matches(overall, preferred)
    boosts: dict[str, dict[str, float]] = {hit.id: question.lifts(hit) for hit in ranked}
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


_BEHIND_BEST = 0.15
"""A passage whose cosine is further behind the best one's is beside the point."""


def near(hits: Sequence[SearchHit]) -> list[SearchHit]:
    """The hits that probably answer."""
    return [hit for hit in hits if (hit.relevance or 0.0) >= LEAST_RELEVANCE]


def relevant(hits: Sequence[SearchHit]) -> list[SearchHit]:
    """As `near`, and without those that are far behind the nearest; the first one stays."""
    floor = _floor(hits)
    close = near(hits)
    return [hit for hit in close if hit is close[0] or hit.literal or hit.cosine >= floor]


def only_relevant(reply: SearchReply) -> SearchReply:
    """The reply without the hits that are not `relevant`; an explained one says why each is out."""
    kept = relevant(reply.hits)
    left = reply.left_out
    if reply.readings:  # it explains itself
        close = near(reply.hits)
        far = [hit for hit in reply.hits if hit not in close]
        behind = [hit for hit in close if hit not in kept]
        left = (
            *left_out(behind, "behind_best", floor=_floor(reply.hits)),
            *left_out(far, "far", floor=LEAST_RELEVANCE),
            *left,
        )
    return msgspec.structs.replace(reply, hits=tuple(kept), left_out=left)


def _floor(hits: Sequence[SearchHit]) -> float:
    return max((hit.cosine for hit in hits), default=0.0) - _BEHIND_BEST

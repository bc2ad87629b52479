"""The explanation of a search as lines of text, for `searchbus search --explain`."""

from __future__ import annotations

from collections.abc import Iterator

from searchbus_contracts.retrieval import Explanation, Leg, SearchReply

__all__ = ["explained", "rest_explained"]


def explained(score: float, explanation: Explanation) -> str:
    """Why a hit stands where it does, in one line.

    #1 1.40 = meaning .55 (rank 1, cosine .81) + words .25 (rank 4, BM25 11.2) + date .60
    """
    parts = [_leg("meaning", "cosine", explanation.meaning)]
    if explanation.words is not None:
        parts.append(_leg("words", "BM25", explanation.words))
    parts += (f"{name} {boost:.2f}" for name, boost in explanation.boosts.items())
    return f"#{explanation.rank} {score:.2f} = {' + '.join(parts)}"


def _leg(name: str, measure: str, leg: Leg) -> str:
    rank = "no candidate" if leg.rank is None else f"rank {leg.rank}"
    return f"{name} {leg.share:.2f} ({rank}, {measure} {leg.score:.2f})"


def rest_explained(reply: SearchReply) -> Iterator[str]:
    """How each collection read the question, and what was left out; a line for each."""
    for name, reading in reply.readings.items():
        wanted = [f"{what} +{boost:.2f}" for what, boost in reading.preferences.items()]
        if reading.order is not None:
            wanted.append(f"the {reading.order} by date")
        meant = ", ".join(wanted) or "no date, type or order"
        yield f"{name}: {reading.ranked} passages ranked for {reading.words!r}; {meant}"
    for entry in reply.left_out:
        missed = "" if entry.floor is None else f" of at least {entry.floor:.2f}"
        line = f"left out ({entry.reason}): {entry.title}, score {entry.score:.2f}"
        if entry.reason == "far":
            yield f"{line}, relevance {entry.relevance or 0.0:.2f}{missed}"
        else:
            yield f"{line}, cosine {entry.cosine:.2f}{missed}"

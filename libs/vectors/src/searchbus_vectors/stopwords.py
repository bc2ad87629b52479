"""English words that BM25 leaves out, in documents and in queries."""

from __future__ import annotations

__all__ = ["STOPWORDS"]

STOPWORDS = frozenset(
    (
        "a about after all also am an and any are as at be because been before being between both "
        "but by can could did do does doing during each for from had has have having he her here "
        "hers him his how i if in into is it its just me more most my no nor not of off on once "
        "only or other our out over own s same she should so some such t than that the their them "
        "then there these they this those through to too under until up very was we were what when "
        "where which while who whom why will with would you your"
    ).split()
)

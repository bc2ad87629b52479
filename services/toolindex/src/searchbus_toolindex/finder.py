"""Answers questions to the index: embeds what is new, remembers what was asked before.

finder = Finder(index, embedder)
page = await finder.find("send an e-mail", kind="tool", actor=actor, limit=10)
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

from searchbus_contracts import Actor, ErrorCode, Fault
from searchbus_contracts.toolindex import MAX_FIND_CHARS, FindReply, Found, Kind
from searchbus_vectors import Vector

from .glossary import load_glossary
from .index import Index, Ranking, matched_words
from .lexicon import Mask
from .question import Question, take_apart

__all__ = ["Embeds", "Finder", "check_query"]

_VECTORS_KEPT = 8192
_RANKINGS_KEPT = 256


class Embeds(Protocol):
    """What embeds short texts."""

    async def embed_short(self, texts: Sequence[str], *, urgent: bool) -> list[Vector]:
        """One vector a text."""


class Finder:
    """Ranks, and cuts pages out of rankings."""

    def __init__(self, index: Index, embedder: Embeds) -> None:
        self._index = index
        self._embedder = embedder
        self._vectors: OrderedDict[str, asyncio.Future[Vector]] = OrderedDict()
        self._rankings: OrderedDict[tuple[object, ...], Ranking] = OrderedDict()
        self._vocabularies: dict[tuple[int, bytes], list[str]] = {}

    async def find(
        self,
        query: str,
        *,
        kind: Kind = "tool",
        actor: Actor | None = None,
        toolsets: Sequence[str] = (),
        limit: int = 10,
        offset: int = 0,
        generation: str | None = None,
    ) -> FindReply:
        """One page of the matches.

        Raises:
            Fault: invalid_query; invalid_argument where another generation is asked for.
        """
        check_query(query)
        actor = actor or Actor()
        ranking, now = await self._rank(query.strip(), kind, actor, toolsets)
        if generation is not None and generation != now:
            raise Fault(
                ErrorCode.INVALID_ARGUMENT,
                "The catalogue has changed since the first page. Search again without a cursor.",
            )
        page = self._index.page(ranking, offset, limit)
        return FindReply(
            generation=now,
            total=len(ranking),
            found=tuple(
                Found(
                    toolset=match.entry.toolset,
                    name=match.entry.name,
                    score=match.score,
                    cosine=round(match.cosine, 4),
                    matched=matched_words(query, match.entry),
                )
                for match in page
            ),
        )

    async def _rank(
        self, query: str, kind: Kind, actor: Actor, toolsets: Sequence[str]
    ) -> tuple[Ranking, str]:
        """The ranking, and the fingerprint of what was ranked."""
        while True:
            version = self._index.version
            visible = self._index.visible(actor, kind, toolsets)
            fingerprint = self._index.fingerprint(visible)
            key = (version, query, visible.tobytes())
            ranking = self._rankings.get(key)
            if ranking is not None:
                self._rankings.move_to_end(key)
                return ranking, fingerprint
            question = self._take_apart(query, visible)
            vectors = await self._embed(question.texts)
            if self._index.version != version:
                continue  # the catalogue changed meanwhile: the mask names other slots
            ranking = self._index.rank(question, vectors, visible)
            self._rankings[key] = ranking
            while len(self._rankings) > _RANKINGS_KEPT:
                self._rankings.popitem(last=False)
            return ranking, fingerprint

    def _take_apart(self, query: str, visible: Mask) -> Question:
        return take_apart(
            query,
            is_known=lambda term: self._index.is_known(term, visible),
            vocabulary=lambda: self._vocabulary(visible),
            glossary=load_glossary(),
        )

    def _vocabulary(self, visible: Mask) -> list[str]:
        key = (self._index.version, visible.tobytes())
        if key not in self._vocabularies:
            if len(self._vocabularies) >= _RANKINGS_KEPT:
                self._vocabularies.clear()
            self._vocabularies[key] = self._index.vocabulary(visible)
        return self._vocabularies[key]

    async def _embed(self, texts: Sequence[str]) -> dict[str, Vector]:
        """Vectors of texts; equal texts asked at the same time are embedded once."""
        missing = [t for t in dict.fromkeys(texts) if t not in self._vectors]
        if missing:
            loop = asyncio.get_running_loop()
            for text in missing:
                job = loop.create_task(self._embed_one(text))
                self._vectors[text] = job
        found = {}
        for text in dict.fromkeys(texts):
            self._vectors.move_to_end(text)
            # Whoever asked first may go away; the others still want the vector.
            found[text] = await asyncio.shield(self._vectors[text])
        while len(self._vectors) > _VECTORS_KEPT:
            self._vectors.popitem(last=False)
        return found

    async def _embed_one(self, text: str) -> Vector:
        try:
            (vector,) = await self._embedder.embed_short([text], urgent=True)
        except BaseException:
            self._vectors.pop(text, None)
            raise
        return vector


def check_query(query: str) -> None:
    """Raise Fault(invalid_query) unless there are 1 to 2000 characters to go by."""
    if not query.strip():
        raise Fault(ErrorCode.INVALID_QUERY, "query is empty. Say what you look for.")
    if len(query) > MAX_FIND_CHARS:
        raise Fault(
            ErrorCode.INVALID_QUERY,
            f"query has {len(query)} characters; at most {MAX_FIND_CHARS} are allowed.",
        )

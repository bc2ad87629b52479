"""Searches the index: parses and embeds the query, keeps vectors and rankings of earlier ones.

finder = Finder(index, embedder)
page = await finder.find("send an e-mail", kind="tool", actor=actor, limit=10)
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from cachetools import LRUCache

from searchbus_contracts import Actor, ErrorCode, Fault, check_query
from searchbus_contracts.toolindex import MAX_FIND_CHARS, FindReply, Found, Kind
from searchbus_vectors import Vector

from .glossary import load_glossary
from .index import Index, Ranking, matched_words
from .lexicon import Mask
from .query import ParsedQuery, parse_query

__all__ = ["Embeds", "Finder"]

_VECTORS_KEPT = 8192
_RANKINGS_KEPT = 256
_VOCABULARIES_KEPT = 64


class Embeds(Protocol):
    """The part of an embedder that the index uses."""

    async def embed_short(self, texts: Sequence[str], *, urgent: bool) -> list[Vector]:
        """One vector for each text."""


class Finder:
    """Ranks entries for a query and returns a page of the ranking."""

    def __init__(self, index: Index, embedder: Embeds) -> None:
        self._index = index
        self._embedder = embedder
        self._vectors: LRUCache[str, asyncio.Task[Vector]] = LRUCache(_VECTORS_KEPT)
        self._rankings: LRUCache[tuple[int, str, bytes], Ranking] = LRUCache(_RANKINGS_KEPT)
        self._vocabularies: LRUCache[tuple[int, bytes], list[str]] = LRUCache(_VOCABULARIES_KEPT)

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

        Args:
            generation: of the first page, for the pages behind it.

        Raises:
            Fault: invalid_query; invalid_argument if the catalogue has changed since `generation`.
        """
        check_query(query, max_chars=MAX_FIND_CHARS)  # lines stay: each is a sentence
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
        """The ranking, and the fingerprint of the visible entries."""
        while True:
            version = self._index.version
            visible = self._index.visible(actor, kind, toolsets)
            fingerprint = self._index.fingerprint(visible)
            key = (version, query, visible.tobytes())
            ranking = self._rankings.get(key)
            if ranking is not None:
                return ranking, fingerprint
            parsed = self._parse(query, visible)
            vectors = await self._embed(parsed.texts)
            if self._index.version != version:
                continue  # the catalogue has changed: the mask's slots hold other entries
            ranking = self._rankings[key] = self._index.rank(parsed, vectors, visible)
            return ranking, fingerprint

    def _parse(self, query: str, visible: Mask) -> ParsedQuery:
        return parse_query(
            query,
            is_known=lambda term: self._index.is_known(term, visible),
            vocabulary=lambda: self._vocabulary(visible),
            glossary=load_glossary(),
        )

    def _vocabulary(self, visible: Mask) -> list[str]:
        key = (self._index.version, visible.tobytes())
        known = self._vocabularies.get(key)
        if known is None:
            known = self._vocabularies[key] = self._index.vocabulary(visible)
        return known

    async def _embed(self, texts: Sequence[str]) -> dict[str, Vector]:
        """Vectors of texts; concurrent requests for one text embed it once."""
        tasks = {text: self._embedding(text) for text in dict.fromkeys(texts)}
        # Shielded: if the first caller is cancelled, the others still need the vector.
        vectors = await asyncio.gather(*(asyncio.shield(task) for task in tasks.values()))
        return dict(zip(tasks, vectors, strict=True))

    def _embedding(self, text: str) -> asyncio.Task[Vector]:
        task = self._vectors.get(text)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._embed_one(text))
            self._vectors[text] = task
            task.add_done_callback(lambda done: self._forget_failed(text, done))
        return task

    async def _embed_one(self, text: str) -> Vector:
        (vector,) = await self._embedder.embed_short([text], urgent=True)
        return vector

    def _forget_failed(self, text: str, task: asyncio.Task[Vector]) -> None:
        failed = task.cancelled() or task.exception() is not None
        if failed and self._vectors.get(text) is task:
            del self._vectors[text]

"""Searches the index: parses and embeds the query, keeps vectors and rankings of earlier ones."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

import numpy as np
from cachetools import LRUCache

from searchbus_bus import Call, endpoint
from searchbus_contracts import Actor, ErrorCode, Fault, check_query
from searchbus_contracts.toolindex import MAX_FIND_CHARS, FindExplanation, FindReply, FindRequest
from searchbus_vectors import Vector

from .embedding import Embeds
from .index import Index, Scope, ScopeKey
from .query import ParsedQuery, is_searchable, load_glossary, parse_query
from .ranking import Ranker, Ranking
from .scoring import Facet

_EXPLAINED = 20
"""Entries of an explanation, left out or not."""
_VECTORS_KEPT_BYTES = 24 * 2**20
_RANKINGS_KEPT_BYTES = 8 * 2**20
_ENTRY_BYTES = 512
"""Memory of a kept vector beside its numbers: key, array and the cache's records, as measured."""
_RANKING_BYTES = 1200
"""The same of a ranking, with the ten nearest entries where nothing matches."""
_MATCH_BYTES = 16


class IndexFinder:
    """Ranks entries for a query and returns a page. Earlier queries are kept, the least recently
    used go. Raises ValueError where the gate was not fitted to the index's model."""

    def __init__(
        self,
        index: Index,
        embedder: Embeds,
        *,
        vectors_kept_bytes: int = _VECTORS_KEPT_BYTES,
        rankings_kept_bytes: int = _RANKINGS_KEPT_BYTES,
    ) -> None:
        self.index = index
        self.ranker = Ranker(index)
        self._embedder = embedder
        self._embeddings: dict[str, asyncio.Task[Vector]] = {}
        self._vectors: LRUCache[bytes, Vector] = LRUCache(
            vectors_kept_bytes, getsizeof=lambda vector: _ENTRY_BYTES + vector.nbytes
        )
        self._rankings: LRUCache[tuple[int, bytes, ScopeKey], Ranking] = LRUCache(
            rankings_kept_bytes,
            getsizeof=lambda ranking: _RANKING_BYTES + _MATCH_BYTES * len(ranking),
        )

    @endpoint
    async def search(self, call: Call, request: FindRequest) -> FindReply:
        """One page of the tools, prompts or resources that fit the query (proto/README.md §11)."""
        return await self.find(request, call.actor)

    async def find(self, request: FindRequest, actor: Actor) -> FindReply:
        """One page of the matches; raises Fault(invalid_query; invalid_argument after a change)."""
        # Each line is a sentence.
        query = check_query(request.query, max_chars=MAX_FIND_CHARS, keep_lines=True)
        scope = self.index.scope(actor, request.kind, request.toolsets)
        if not (is_searchable(query) or self.index.literal.has_name(query, scope.lengths.visible)):
            return FindReply(generation=scope.fingerprint)
        ranking, now = await self._rank(query, request, actor)
        if request.generation is not None and request.generation != now:
            raise Fault(
                ErrorCode.INVALID_ARGUMENT,
                "The catalogue has changed since the first page. Search again without a cursor.",
            )
        limit = request.limit
        if request.first_page and not request.offset and ranking.first_page:
            limit = min(limit, ranking.first_page)
        uncertain = not len(ranking)
        if uncertain and ranking.nearest is not None:
            page = self.ranker.page(query, ranking.nearest, 0, request.nearest)
        else:
            page = self.ranker.page(query, ranking, request.offset, limit)
        return FindReply(
            generation=now,
            total=len(ranking),
            first_page=ranking.first_page,
            uncertain=uncertain and bool(page),
            found=page,
            explanation=await self._explain(query, request, actor) if request.explain else None,
        )

    async def facets(self, query: str, scope: Scope) -> tuple[ParsedQuery, list[Facet]]:
        """A parsed query, and each of its texts compared with every slot, to fit the gate."""
        parsed = self._parse(query, scope)
        return parsed, self.ranker.facets(parsed, await self._embed(parsed.texts), scope)

    async def _explain(self, query: str, request: FindRequest, actor: Actor) -> FindExplanation:
        scope = self.index.scope(actor, request.kind, request.toolsets)
        parsed = self._parse(query, scope)
        vectors = await self._embed(parsed.texts)
        # Entries may have come meanwhile.
        scope = self.index.scope(actor, request.kind, request.toolsets)
        return self.ranker.explain(parsed, vectors, scope, _EXPLAINED)

    async def _rank(self, query: str, request: FindRequest, actor: Actor) -> tuple[Ranking, str]:
        """The ranking, and the fingerprint of the visible entries."""
        vectors: dict[str, Vector] = {}
        while True:
            version = self.index.version
            scope = self.index.scope(actor, request.kind, request.toolsets)
            key = (version, _digest(query), scope.key)
            ranking = self._rankings.get(key)
            if ranking is not None:
                return ranking, scope.fingerprint
            parsed = self._parse(query, scope)
            missing = [text for text in parsed.texts if text not in vectors]
            if missing:
                vectors |= await self._embed(missing)
            if self.index.version != version:
                # The catalogue has changed: slots may hold other entries. The vectors stay, so that
                # a catalogue that changes all the time does not keep a search waiting.
                continue
            ranking = self.ranker.rank(parsed, vectors, scope)
            self._rankings[key] = ranking
            return ranking, scope.fingerprint

    def _parse(self, query: str, scope: Scope) -> ParsedQuery:
        frequency, visible = self.index.lexicon.frequency, scope.lengths.visible
        return parse_query(
            query,
            is_known=lambda term: frequency(term, visible) > 0,
            is_word=self._embedder.is_word,
            vocabulary=lambda: self.index.vocabulary(scope),
            glossary=load_glossary(),
        )

    async def _embed(self, texts: Sequence[str]) -> dict[str, Vector]:
        """Vectors of texts; concurrent requests for one text embed it once."""
        vectors: dict[str, Vector] = {}
        tasks: dict[str, asyncio.Task[Vector]] = {}
        for text in texts:
            if (kept := self._vectors.get(_digest(text))) is not None:
                vectors[text] = kept
            else:
                tasks[text] = self._embedding(text)
        # Shielded: if the first caller is cancelled, the others still need the vector.
        made = await asyncio.gather(*(asyncio.shield(task) for task in tasks.values()))
        return vectors | dict(zip(tasks, made, strict=True))

    def _embedding(self, text: str) -> asyncio.Task[Vector]:
        task = self._embeddings.get(text)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._embed_one(text))
            self._embeddings[text] = task
            task.add_done_callback(lambda _: self._embeddings.pop(text))
        return task

    async def _embed_one(self, text: str) -> Vector:
        (vector,) = await self._embedder.embed_short(
            [self._embedder.query_prefix + text], urgent=True
        )
        # A copy: the vector may be a row of the matrix of a whole batch.
        kept = self._vectors[_digest(text)] = np.array(vector)
        return kept


def _digest(text: str) -> bytes:
    """The key of a text of any length, of 16 bytes."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()

"""The documents as callers see them: search, get, list. Independent of the bus, MCP and files.

library = await Library.open(store, embedder)
hits = await library.search("fomc", "why did rates rise?", limit=5)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from searchbus_contracts import ErrorCode, Fault, check_query
from searchbus_contracts.explanation import Explanation
from searchbus_contracts.retrieval import (
    MAX_QUERY_CHARS,
    CollectionInfo,
    Document,
    DocumentSummary,
    FieldType,
    IngestResult,
    NewDocument,
    SearchHit,
)
from searchbus_vectors import (
    AllOf,
    CollectionDamaged,
    CollectionMissing,
    Embedder,
    Equals,
    Filter,
    Hit,
    Match,
    QueryCache,
    Sparse,
    VectorStore,
)

from .anchors import Anchors
from .explaining import MAX_LEFT_OUT, Answer, Ranked, explanations, left_out, reading_of
from .faults import damaged_collection, typed
from .highlights import Highlights
from .models import Models
from .profiles import Profile, load_profiles
from .question import Question
from .ranking import Preference, rank, worth_reading
from .reading import DocumentReader
from .records import field_specs, is_live, is_live_chunk, summary_of
from .schemas import Schema, Schemas
from .where import compile_where
from .writing import Writer

__all__ = ["Library"]

log = logging.getLogger("searchbus.retrieval")


class Library:
    """Collections of documents in one store. Make it with `open`."""

    def __init__(self, store: VectorStore, models: Models, profiles: Mapping[str, Profile]) -> None:
        self._store = store
        self._profiles = profiles
        self._models = models
        self._schemas = Schemas(store)
        self._writer = Writer(store, models, self._schemas)
        self._reader = DocumentReader(store)
        self._anchors = Anchors(self._reader)

    @classmethod
    async def open(
        cls,
        store: VectorStore,
        embedder: Embedder | Models,
        *,
        profiles: Mapping[str, Profile] | None = None,
        repair: bool = True,
    ) -> Library:
        """Read the list of collections and repair what a crash left incomplete.

        Args:
            embedder: of every collection, or those that collections may have.
            profiles: collection → what its questions mean; by default those that are shipped.
            repair: False where several processes share a server, since another may be writing.
        """
        models = embedder if isinstance(embedder, Models) else Models(embedder)
        self = cls(store, models, load_profiles() if profiles is None else profiles)
        for name in await self._schemas.all():
            if repair:
                try:
                    with typed(name):
                        await self._writer.repair(name)
                except Fault as fault:  # the others are served; reads of this one answer the same
                    log.error("%s could not be repaired: %s", name, fault)
        return self

    @property
    def damaged(self) -> Mapping[str, str]:
        """Collection → what of it is damaged."""
        return self._store.damaged

    async def search(
        self,
        collection: str,
        query: str,
        *,
        limit: int = 5,
        where: Mapping[str, Any] | None = None,
        per_document: bool = False,
    ) -> list[SearchHit]:
        """The hits of `answer`, best first."""
        answer = await self.answer(
            collection, query, limit=limit, where=where, per_document=per_document
        )
        return answer.hits

    async def answer(
        self,
        collection: str,
        query: str,
        *,
        limit: int,
        where: Mapping[str, Any] | None = None,
        per_document: bool = False,
        aliases: Mapping[str, str] | None = None,
        explain: bool = False,
    ) -> Answer:
        """Search one collection.

        Documents that the question seems to mean are ranked higher (profiles.py, intent.py).

        Args:
            query: 1 to 1000 characters of natural language.
            where: filter on metadata, see where.py.
            per_document: only the best chunk of each document.
            aliases: other names for fields in `where`.
            explain: whether the answer says why each hit stands where it does.

        Raises:
            Fault: invalid_query, invalid_argument, not_found (no such collection), unavailable (it
                is damaged).
        """
        query = check_query(query, max_chars=MAX_QUERY_CHARS)
        schema = await self._schemas.get(collection)
        queries = await self._models.queries(collection, schema.model)
        condition: Filter = is_live
        if where:
            specs = field_specs(schema.fields)
            for alias, name in (aliases or {}).items():
                if name in specs:
                    specs[alias] = specs.pop(name)
            condition = AllOf((is_live, compile_where(where, specs)))
        question = Question(query, self._profiles.get(collection, Profile()), schema.fields)
        # One document may have several of the best chunks.
        wanted = limit * 6 if per_document else limit
        with typed(collection):
            ranked = await self._ranked(collection, queries, question, condition, wanted, explain)
        found = [
            _to_hit(collection, hit, question, ranked.why.get(hit.id))
            for hit in ranked.hits[: wanted + (MAX_LEFT_OUT if explain else 0)]
        ]
        found, beyond = found[:wanted], found[wanted:]
        unique = found
        if per_document:
            unique = list({hit.document_id: hit for hit in reversed(found)}.values())[::-1]
            unique.sort(key=lambda hit: -hit.score)
        with typed(collection):
            hits = await self._anchors.complete(collection, unique[:limit])
        if not explain:
            return Answer(hits)
        kept = {hit.chunk_id for hit in unique}
        repeated = [hit for hit in found if hit.chunk_id not in kept]
        return Answer(
            hits,
            left_out(repeated, "same_document") + left_out([*unique[limit:], *beyond], "limit"),
            reading_of(question, len(ranked.hits)),
        )

    async def _ranked(
        self,
        collection: str,
        queries: QueryCache,
        question: Question,
        condition: Filter,
        limit: int,
        explain: bool,
    ) -> Ranked:
        """One search over all documents and one for each preference, merged by ranking.py."""
        embedder = queries.embedder
        vectors = await queries.embed(question.query)
        if question.spelled != question.query:  # other words, but the same meaning
            vectors = replace(vectors, sparse=embedder.words(question.spelled))
        weighed = {word: embedder.words(word).indices for word in question.weighed_words}
        best = await self._best_by_word(collection, vectors.sparse.indices, *weighed.values())
        question.weigh(
            {word: max((best[i] for i in ids), default=0.0) for word, ids in weighed.items()}
        )

        if question.synonyms.words:
            others = embedder.words(question.synonyms.words)
            vectors = replace(vectors, sparse=question.synonyms.added(vectors.sparse, others))

        async def match(where: Filter) -> list[Match]:
            found = await self._store.match(
                collection, vectors, where=where, candidates=question.candidates, best=best,
                explain=explain,
            )  # fmt: skip
            return embedder.comparable(found)

        async def preferred(preference: Preference) -> tuple[Preference, list[Match]]:
            found = await match(AllOf((condition, preference.condition)))
            if not found and preference.instead is not None:
                return await preferred(preference.instead)
            return preference, found

        overall, pairs = await asyncio.gather(
            match(condition), asyncio.gather(*map(preferred, question.preferences))
        )
        lists = [matches for _, matches in pairs]
        ids = worth_reading(overall, lists, limit, far=question.looks_far)
        records = await self._store.get(collection, ids)
        payloads = {record.id: record.payload for record in records}

        def ranked() -> Ranked:
            hits = question.ordered(rank(overall, pairs, payloads, question.lift))
            return Ranked(hits, explanations(question, overall, pairs, hits) if explain else {})

        # It reads the text of a hundred passages or more, which would hold the event loop.
        return await asyncio.to_thread(ranked)

    async def _best_by_word(self, collection: str, *words: Sequence[int]) -> dict[int, float]:
        """Word id → the best BM25 score that any passage has for it."""
        ids = list(dict.fromkeys(index for some in words for index in some))
        scores = await self._store.best_by_word(collection, Sparse(ids, [1.0] * len(ids)))
        return dict(zip(ids, scores, strict=True))

    async def highlights(self, collection: str) -> Highlights:
        """What finds the sentences of a collection that answer; by the collection's model.

        Raises:
            Fault: not_found, unavailable.
        """
        schema = await self._schemas.get(collection)
        return Highlights(await self._models.embedder(collection, schema.model))

    async def similarity(self, question: str, texts: Sequence[str]) -> list[float]:
        """The cosine of each text to a question, by the default model."""
        return await Highlights(self._models.default).cosines(question, texts)

    async def get(self, collection: str | None, document_id: str) -> Document:
        """One whole document; without a collection, of the first that has it.

        Raises:
            Fault: not_found.
        """
        return await self.get_from([collection] if collection else await self.names(), document_id)

    async def names(self) -> list[str]:
        """Every collection's name, sorted; damaged ones, too."""
        return sorted({*await self._schemas.all(), *self._store.damaged})

    async def get_from(
        self,
        collections: Sequence[str],
        document_id: str,
        *,
        start: int = 0,
        end: int | None = None,
    ) -> Document:
        """A document with `text[start:end]`, of the first of these collections that has it.

        Raises:
            Fault: not_found; unavailable, where a damaged collection may have it; invalid_argument,
                where the text ends before `start`.
        """
        damaged: Fault | None = None
        for name in collections:
            try:
                with typed(name):
                    document = await self._reader.read(name, document_id, start=start, end=end)
            except Fault as fault:
                if fault.code != ErrorCode.UNAVAILABLE or fault.failure.retryable:
                    raise
                damaged = fault
                continue
            if document is not None:
                return document
        if damaged is not None:
            raise damaged
        raise Fault(
            ErrorCode.NOT_FOUND,
            "There is no document with this id. Take document_id from a search result.",
        )

    async def list_documents(
        self, collection: str, *, limit: int, start_id: str | None = None
    ) -> tuple[list[DocumentSummary], str | None]:
        """A page of documents, and the id at which the next page starts."""
        with typed(collection):
            page = await self._store.scroll(
                collection, where=Equals("kind", "record"), limit=limit, start_id=start_id
            )
        return [summary_of(collection, record.payload) for record in page.records], page.next_id

    async def list_collections(self) -> list[CollectionInfo]:
        """Every collection with its sizes and fields; one that cannot be read has neither."""
        schemas = await self._schemas.all()
        return [await self._info(name, schemas.get(name)) for name in await self.names()]

    async def _info(self, name: str, schema: Schema | None) -> CollectionInfo:
        try:
            if schema is not None:
                return CollectionInfo(
                    name=name,
                    documents=await self._store.count(name, Equals("kind", "record")),
                    chunks=await self._store.count(name, is_live_chunk),
                    fields=dict(schema.fields),
                    damage=self._store.damaged.get(name, ""),
                    model=schema.model,
                )
        except CollectionDamaged as error:
            log.warning("%s", error)
        damage = self._store.damaged.get(name, "it cannot be read")
        return CollectionInfo(name=name, documents=0, chunks=0, damage=damage)

    async def count_documents(self, collection: str) -> int:
        """The number of documents of a collection; 0 if the collection does not exist.

        Raises:
            Fault: unavailable, where it is damaged.
        """
        try:
            return await self._store.count(collection, Equals("kind", "record"))
        except CollectionMissing:
            return 0
        except CollectionDamaged as error:
            raise damaged_collection(collection, error.reason) from error

    async def store(
        self, collection: str, document: NewDocument, fields: dict[str, FieldType] | None = None
    ) -> IngestResult:
        """Store one document; see writing.py.

        Raises:
            Fault: storage_full; unavailable, where the collection is damaged or holds vectors of
                another model.
        """
        with typed(collection):
            return await self._writer.store(collection, document, fields or {})

    async def delete(self, collection: str, document_ids: tuple[str, ...]) -> int:
        """Delete documents, or a collection; returns the number of documents."""
        with typed(collection):
            return await self._writer.delete(collection, document_ids)


def _to_hit(
    collection: str, hit: Hit, question: Question, explanation: Explanation | None
) -> SearchHit:
    payload = hit.payload
    return SearchHit(
        collection=collection,
        document_id=payload["document_id"],
        chunk_id=hit.id,
        title=payload["title"],
        text=payload["text"],
        score=hit.score,
        cosine=min(1.0, max(0.0, hit.cosine)),
        literal=question.is_literal(hit),
        url=payload.get("url"),
        section=payload.get("section"),
        metadata=payload.get("m") or {},
        start=payload.get("start"),
        end=payload.get("end"),
        content_hash=payload.get("content_hash"),
        explanation=explanation,
    )

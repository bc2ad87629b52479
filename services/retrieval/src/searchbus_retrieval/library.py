"""The documents as callers see them: search, get, list. Independent of the bus, MCP and files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from searchbus_contracts import ErrorCode, Fault
from searchbus_contracts.ingest import IngestResult, NewDocument
from searchbus_contracts.retrieval import (
    CollectionInfo,
    Document,
    DocumentSummary,
    FieldType,
    LeftOut,
    Passage,
    SearchHit,
    SearchReply,
)
from searchbus_vectors import AllOf, CollectionMissingError, Embedder, Filter, VectorStore

from .documents.collections import (
    Models,
    Schemas,
    contradictions,
    is_staged,
    origin_of,
    page_start,
    staged,
    typed,
)
from .documents.copying import Copies
from .documents.facts import rules_of
from .documents.reading import DocumentReader
from .documents.records import field_specs, is_live_chunk, is_record, summary_of
from .documents.where import compile_where
from .documents.writing import Writer
from .fitting import Highlights
from .question.profiles import Profile, load_profiles
from .ranking.backgrounds import Backgrounds
from .ranking.explaining import MAX_LEFT_OUT, CollectionAnswer, left_out
from .searching import Searcher

log = logging.getLogger("searchbus.retrieval")
ALL = AllOf(())
"""Every document."""


class Library:
    """Collections of documents in one store. Make it with `open`.

    Attributes:
        searcher: searches one of them.
        copies: reads and stores copies of them.
    """

    def __init__(self, store: VectorStore, models: Models, profiles: Mapping[str, Profile]) -> None:
        self._store = store
        self._profiles = profiles
        self._models = models
        self._schemas = Schemas(store)
        self._writer = Writer(store, models, self._schemas, profiles)
        self._reader = DocumentReader(store)
        self.copies = Copies(store, self._schemas)
        self._backgrounds = Backgrounds(store)
        self.searcher = Searcher(
            store, models, self._schemas, self._reader, self._backgrounds, profiles
        )

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
        for name in await self._schemas.names():
            if repair:
                try:
                    with typed(name):
                        await self._writer.repair(name)
                except Fault as fault:  # the others are served; reads of this one answer the same
                    log.error("%s could not be repaired: %s", name, fault)
        return self

    async def check(self) -> bool:
        """Whether the store answers."""
        with typed():
            await self._store.check()
        return True

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
        """The hits of `Searcher.answer`, best first."""
        answer = await self.searcher.answer(
            collection, query, limit=limit, where=where, per_document=per_document
        )
        return answer.hits

    async def search_all(
        self,
        collections: Sequence[str],
        query: str,
        *,
        limit: int,
        where: Mapping[str, Any] | None = None,
        per_document: bool = False,
        explain: bool = False,
    ) -> SearchReply:
        """Search collections concurrently; an empty list means all of them.

        Raises:
            Fault: invalid_query; if every collection failed, the first one's failure.
        """
        names = tuple(dict.fromkeys(collections)) or tuple(await self.names())
        outcomes = await asyncio.gather(
            *(
                self.searcher.answer(
                    name,
                    query,
                    limit=limit,
                    where=where,
                    per_document=per_document,
                    explain=explain,
                )
                for name in names
            ),
            return_exceptions=True,
        )
        hits: list[SearchHit] = []
        answers: dict[str, CollectionAnswer] = {}
        faults: dict[str, Fault] = {}
        for name, outcome in zip(names, outcomes, strict=True):
            if isinstance(outcome, Fault):
                if outcome.code == ErrorCode.INVALID_QUERY:
                    raise outcome
                faults[name] = outcome
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                answers[name] = outcome
                hits += outcome.hits
        if names and len(faults) == len(names):
            raise faults[names[0]]
        # Fused scores are relative to their own collection; the cosine is comparable across them.
        if len(names) > 1:
            hits.sort(key=lambda hit: (-(0.5 * hit.score + hit.cosine), hit.chunk_id))
        return SearchReply(
            hits=tuple(hits[:limit]),
            failed={name: fault.code for name, fault in faults.items()},
            searched=tuple(answers),
            readings={name: a.reading for name, a in answers.items() if a.reading is not None},
            left_out=_left_out(answers.values(), hits[limit:]) if explain else (),
        )

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

    async def names(self) -> list[str]:
        """Every collection's name, sorted; damaged ones, too."""
        found = {*await self._schemas.names(), *self.damaged}
        return sorted(name for name in found if not is_staged(name))

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
        raise unknown_document()

    async def list_documents(
        self,
        collection: str,
        *,
        limit: int,
        start_id: str | None = None,
        where: Filter = ALL,
    ) -> tuple[list[DocumentSummary], str | None]:
        """A page of documents, and the id at which the next page starts; raises
        Fault(invalid_argument) for a start that is no id."""
        origin = origin_of(collection)
        with typed(collection):
            page = await self._store.scroll(
                collection,
                where=AllOf((is_record, where)),
                limit=limit,
                start_id=page_start(start_id),
            )
        rules = rules_of(self._profiles.get(origin, Profile()))
        fields = (await self._schemas.get(collection)).fields
        return [summary_of(origin, r.payload, rules, fields) for r in page.records], page.next_id

    async def filter_of(self, collection: str, where: Mapping[str, Any] | None) -> Filter:
        """The filter that a caller wrote, over the collection's fields.

        Raises:
            Fault: not_found, invalid_argument.
        """
        if not where:
            return ALL
        schema = await self._schemas.get(collection)
        return compile_where(where, field_specs(schema.fields, schema.facts))

    async def list_passages(
        self, collection: str, document_id: str, *, limit: int, offset: int
    ) -> tuple[list[Passage], int | None]:
        """A page of a document's passages, and the number of the next page's first.

        Raises:
            Fault: not_found.
        """
        with typed(collection):
            found = await self._reader.passages(collection, document_id, offset=offset, limit=limit)
        if found is None:
            raise unknown_document()
        passages, total = found
        return passages, offset + limit if offset + limit < total else None

    async def list_collections(self) -> list[CollectionInfo]:
        """Every collection with its sizes and fields; one that cannot be read has neither."""
        found = [await self._info(name) for name in await self.names()]
        return [info for info in found if info is not None]

    async def _info(self, name: str) -> CollectionInfo | None:
        """One collection; None where it was deleted meanwhile."""
        try:
            schema = await self._schemas.find(name)
            if schema is not None:
                with typed(name):
                    return CollectionInfo(
                        name=name,
                        documents=await self._store.count(name, is_record),
                        chunks=await self._store.count(name, is_live_chunk),
                        fields=dict(schema.fields),
                        damage=self.damaged.get(name, ""),
                        model=schema.model,
                    )
        except Fault as fault:
            if fault.code == ErrorCode.NOT_FOUND:
                return None
            if fault.failure.retryable:
                raise
            log.warning("%s", fault)
        else:
            if name not in self.damaged:
                return None
        damage = self.damaged.get(name, "it cannot be read")
        return CollectionInfo(name=name, documents=0, chunks=0, damage=damage)

    async def count_documents(self, collection: str, where: Filter = ALL) -> int:
        """The number of documents of a collection; 0 if the collection does not exist.

        Raises:
            Fault: unavailable, where it is damaged or the store does not answer.
        """
        try:
            with typed(collection):
                return await self._store.count(collection, AllOf((is_record, where)))
        except Fault as fault:
            if fault.code == ErrorCode.NOT_FOUND:
                return 0
            raise

    async def store(
        self, collection: str, document: NewDocument, fields: dict[str, FieldType] | None = None
    ) -> IngestResult:
        """Store one document; see writing.py.

        Raises:
            Fault: storage_full; unavailable, where the collection is damaged or holds vectors of
                another model; invalid_argument, where it has a declared field with another type.
        """
        with typed(collection):
            try:
                result = await self._writer.store(collection, document, fields or {})
            except CollectionMissingError:  # another replica deleted it: it is made anew
                self._schemas.forget(collection)
                result = await self._writer.store(collection, document, fields or {})
            if result.outcome in ("stored", "replaced"):
                schema = await self._schemas.get(collection)
                embedder = await self._models.embedder(collection, schema.model)
                self._backgrounds.changed(collection, embedder)
            return result

    async def begin_rebuild(
        self, collection: str, fields: Mapping[str, FieldType] = MappingProxyType({})
    ) -> int:
        """Begin a copy of a collection whose documents will have these declared fields, or continue
        one that has no other types of them; returns how many documents it has."""
        copy = staged(collection)
        schema = await self._schemas.find(copy)
        model = self._models.of_new(collection)
        if schema is not None and (schema.model != model or contradictions(schema, fields)):
            await self.delete(copy, ())
        return await self.count_documents(copy)

    async def end_rebuild(self, collection: str) -> int:
        """Put the copy in the collection's place; returns how many documents it has.

        Raises:
            Fault: not_found, where no document was stored into a copy.
        """
        documents = await self.count_documents(staged(collection))
        if not documents:
            raise Fault(
                ErrorCode.NOT_FOUND,
                f"No document is in the copy of '{collection}', which stays as it is. Ingest its "
                "documents with `staged` first.",
            )
        self._backgrounds.forget(staged(collection))  # nobody reads the copy any more
        await self._schemas.take_place(staged(collection), collection)
        self._backgrounds.forget(collection)
        return documents

    async def delete(self, collection: str, document_ids: tuple[str, ...]) -> int:
        """Delete documents, or a collection; returns the number of documents."""
        with typed(collection):
            deleted = await self._writer.delete(collection, document_ids)
        if not document_ids:
            self._backgrounds.forget(collection)
        return deleted


def unknown_document() -> Fault:
    """The failure for a document that no readable collection has."""
    return Fault(
        ErrorCode.NOT_FOUND,
        "There is no document with this id. Take document_id from a search result.",
    )


def _left_out(
    answers: Iterable[CollectionAnswer], beyond: Sequence[SearchHit]
) -> tuple[LeftOut, ...]:
    """What the collections left out, and the hits behind the last one of all collections."""
    found = [*left_out(beyond, "limit"), *(entry for a in answers for entry in a.left_out)]
    found.sort(key=lambda entry: (-entry.score, entry.chunk_id))
    return tuple(found[:MAX_LEFT_OUT])

"""Searches one collection: what the question means, the candidates, their order, their places."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import msgspec

from searchbus_contracts import check_query
from searchbus_contracts.retrieval import MAX_QUERY_CHARS, FieldType, SearchHit
from searchbus_vectors import (
    AllOf,
    Embedder,
    Filter,
    Hit,
    IsIn,
    Match,
    Not,
    QueryCache,
    QueryVectors,
    Sparse,
    VectorStore,
)

from .documents.collections import Models, Schemas, typed
from .documents.reading import DocumentReader, Span
from .documents.records import field_specs, is_live
from .documents.where import compile_where
from .question.dates import dates_of
from .question.profiles import Profile
from .question.spelling import MOST_WORDS, doubtful_words, near_words, with_words
from .ranking.backgrounds import Backgrounds
from .ranking.events import day_beside
from .ranking.explaining import (
    MAX_LEFT_OUT,
    CollectionAnswer,
    RankedHits,
    explanations,
    left_out,
    reading_of,
)
from .ranking.joining import LOOKED_AT, Joined, holding, join
from .ranking.preferences import (
    DATE_NAMES,
    Preference,
    held_in,
    rank,
    shortly_beside,
    worth_reading,
)
from .ranking.probability import Dated, Probability
from .ranking.question import Question

_MOST_BEYOND, _READ_BEYOND = 6, 20
"""Searches for a passage that is earlier than the first one found, or later than the latest, as
long as that moves; and the passages of each that are read."""
_MOST_CROWDED, _MOST_AGAIN = 2, 5
"""Further searches where fewer documents than wanted have all the best passages; and searches where
what was found is replaced before it is read."""
_MOST_BESIDE = 4
"""Dates of one question beside which it looks: each takes nine counts."""


class Searcher:
    """Searches one store. `schemas`, `models` and `reader` are the library's.

    Args:
        backgrounds: of the store's collections.
        profiles: collection → what its questions mean.
    """

    def __init__(
        self,
        store: VectorStore,
        models: Models,
        schemas: Schemas,
        reader: DocumentReader,
        backgrounds: Backgrounds,
        profiles: Mapping[str, Profile],
    ) -> None:
        self._store = store
        self._models = models
        self._schemas = schemas
        self._backgrounds = backgrounds
        self._profiles = profiles
        self._reader = reader

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
    ) -> CollectionAnswer:
        """Search one collection.

        Documents that the question seems to mean are ranked higher (ranking/preferences.py).

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
            specs = field_specs(schema.fields, schema.facts)
            for alias, name in (aliases or {}).items():
                if name in specs:
                    specs[alias] = specs.pop(name)
            condition = AllOf((is_live, compile_where(where, specs)))
        profile = self._profiles.get(collection, Profile())
        query = await self._spelled(collection, queries.embedder, query)
        question = Question(query, profile, schema.fields, schema.facts)
        # One document may have several of the best chunks, or all of them.
        wanted = limit * (6 if per_document else LOOKED_AT)
        with typed(collection):
            if question.beside:
                days = await asyncio.gather(*(
                    day_beside(self._store, collection, condition, question.date_path, beside)
                    for beside in question.beside[:_MOST_BESIDE]
                ))  # fmt: skip
                question.take_days([day for day in days if day is not None])
            ranked = await self._ranked(collection, queries, question, condition, wanted, explain)
            for _ in range(_MOST_CROWDED if per_document else 0):
                crowd = {hit.payload["document_id"] for hit in ranked.hits}
                if ranked.is_all or len(crowd) >= limit:
                    break
                # A long document has the best passages, and leaves no place for others.
                others = AllOf((condition, Not(IsIn("document_id", tuple(sorted(crowd))))))
                more = await self._ranked(collection, queries, question, others, wanted, explain)
                ranked = ranked.followed_by(more)
        hits, repeated = _by_document(ranked.hits) if per_document else (ranked.hits, [])
        found = _to_hits(
            collection, hits[: wanted + (MAX_LEFT_OUT if explain else 0)], question, ranked
        )
        shown, rest = join(found[:wanted], limit)
        with typed(collection):
            whole = (await self._whole(collection, shown, ranked))[:limit]
            probability = await self._probability(
                collection, queries.embedder, question, ranked, schema.fields, shown
            )
        answer = await asyncio.to_thread(_with_probability, whole, probability)
        if not explain:
            return CollectionAnswer(answer)
        same = _to_hits(collection, repeated[:MAX_LEFT_OUT], question, ranked)
        return CollectionAnswer(
            answer,
            left_out(same, "same_document") + left_out([*rest, *found[wanted:]], "limit"),
            reading_of(question, len(ranked.hits)),
        )

    async def _whole(
        self, collection: str, shown: Sequence[Joined], ranked: RankedHits
    ) -> list[SearchHit]:
        """The hits, best first; those that were joined with the text of both."""
        revisions = {hit.id: hit.payload["revision"] for hit in ranked.hits}
        wanted = {
            one.best.chunk_id: Span(one.best.document_id, revisions[one.best.chunk_id], *one.span)
            for one in shown
            if one.span is not None
        }
        texts = await self._reader.spans(collection, list(wanted.values()))
        found = dict(zip(wanted, texts, strict=True))
        hits = chain.from_iterable(one.with_text(found.get(one.best.chunk_id)) for one in shown)
        return sorted(hits, key=lambda hit: -hit.score)

    async def _ranked(
        self,
        collection: str,
        queries: QueryCache,
        question: Question,
        condition: Filter,
        limit: int,
        explain: bool,
    ) -> RankedHits:
        embedder = queries.embedder
        vectors = await queries.embed(question.synonyms.question)
        if question.spelled != question.synonyms.question:  # by words its synonyms weigh less
            vectors = replace(vectors, sparse=embedder.words(question.spelled))
        weighed = {word: embedder.words(word).indices for word in question.words}
        own = {word: embedder.words(word).indices for word in question.own_words}
        best = await self._best_by_word(
            collection, vectors.sparse.indices, *weighed.values(), *own.values()
        )
        rarity = {
            word: max((best[i] for i in ids), default=0.0) for word, ids in (own | weighed).items()
        }
        question.weigh(rarity, await self._rare(collection, embedder, weighed))

        if question.synonyms.words:
            others = embedder.words(question.synonyms.words)
            vectors = replace(vectors, sparse=question.synonyms.added(vectors.sparse, others))

        async def match(where: Filter, wanted: QueryVectors = vectors) -> list[Match]:
            found = await self._store.match(
                collection, wanted, where=where, candidates=question.candidates, best=best,
                explain=explain,
            )  # fmt: skip
            return embedder.comparable(found)

        async def preferred(preference: Preference) -> tuple[Preference, list[Match]]:
            found = await match(AllOf((condition, preference.condition)))
            if not found and preference.instead is not None:
                return await preferred(preference.instead)
            return preference, found

        for _ in range(_MOST_AGAIN):
            overall, pairs = await asyncio.gather(
                match(condition), asyncio.gather(*map(preferred, question.preferences))
            )
            lists = [matches for _, matches in pairs]
            if sought := question.sought_words:
                # Hardly more passages than these have the words: one of them is the first.
                words = replace(vectors, sparse=embedder.words(sought))
                lists.append(await match(condition, words))
                overall = _joined(overall, lists[-1])
            ids = worth_reading(
                overall, lists, limit, far=question.looks_far, quotation=question.may_quote
            )
            payloads, gone = await self._reader.payloads(collection, ids, {})
            if not gone:
                break

        def ranked() -> RankedHits:
            question.read([payload["text"] for payload in payloads.values()])
            hits = question.ordered(rank(overall, pairs, payloads, question.lift))
            why = explanations(question, overall, pairs, hits) if explain else {}
            of_dates = [bool(found) for wanted, found in pairs if wanted.name in DATE_NAMES]
            is_all = len(overall) < question.candidates and len(overall) <= len(payloads)
            return RankedHits(hits, best, is_all, any(of_dates) and all(of_dates), why)

        # It reads the text of a hundred passages or more, which would hold the event loop.
        hits = await asyncio.to_thread(ranked)
        if question.order is None:
            return hits
        words = replace(vectors, sparse=embedder.words(sought or question.order_words))
        for _ in range(_MOST_BEYOND):
            beyond = question.beyond(hits.hits)
            if beyond is None:
                break
            found = (await match(AllOf((condition, beyond)), words))[:_READ_BEYOND]
            new = [one for one in found if one.id not in payloads]
            if not new:
                break
            payloads, _ = await self._reader.payloads(collection, [one.id for one in new], payloads)
            overall = _joined(overall, new)
            first = hits.hits[0].id
            hits = await asyncio.to_thread(ranked)
            if hits.hits[0].id == first:
                break
        return hits

    async def _spelled(self, collection: str, embedder: Embedder, query: str) -> str:
        """The query with misspelt words replaced by the most usual near ones of the passages."""
        doubtful = doubtful_words(query, embedder.is_word)
        found = await self._weights(collection, embedder, doubtful)
        unknown = [word for word in doubtful if not found[word]]
        if not 0 < len(unknown) <= MOST_WORDS:
            return query
        near = await asyncio.to_thread(
            lambda: {word: near_words(word, embedder.is_word) for word in unknown}
        )
        found = await self._weights(collection, embedder, set(chain.from_iterable(near.values())))
        known = {word: [one for one in others if found[one]] for word, others in near.items()}
        return with_words(
            query, {word: min(some, key=found.__getitem__) for word, some in known.items() if some}
        )

    async def _weights(
        self, collection: str, embedder: Embedder, words: Iterable[str]
    ) -> dict[str, float]:
        """Word → the best BM25 score that any passage has for it; 0 where none has it."""
        ids = {word: embedder.words(word).indices for word in words}
        with typed(collection):
            best = await self._best_by_word(collection, *ids.values())
        return {word: max((best[i] for i in own), default=0.0) for word, own in ids.items()}

    async def _rare(
        self, collection: str, embedder: Embedder, words: Mapping[str, Sequence[int]]
    ) -> set[str]:
        """The words that hardly any passage has; not one that none has."""
        if not words:
            return set()
        # It grows with the collection, slowly. Counting now would cost more than all searches.
        most = math.isqrt((await self._backgrounds.of(collection, embedder)).passages)
        ids = list(dict.fromkeys(index for some in words.values() for index in some))
        counts = await self._store.count_by_word(collection, ids, most=most + 1)
        found = dict(zip(ids, counts, strict=True))
        return {w for w, own in words.items() if any(0 < found[i] <= most for i in own)}

    async def _probability(
        self,
        collection: str,
        embedder: Embedder,
        question: Question,
        ranked: RankedHits,
        fields: Mapping[str, FieldType],
        shown: Sequence[Joined],
    ) -> Probability:
        background = await self._backgrounds.of(collection, embedder)
        dated, denied = None, False
        said = dates_of(question.query)
        periods = (*said.periods, *question.days)
        name = question.date_field
        if name is None:
            dates = [field for field, kind in fields.items() if kind == "datetime"]
            name = dates[0] if len(dates) == 1 else None
        if periods and name is not None:
            path = f"m.{name}"
            near = AllOf((is_live, shortly_beside(path, periods)))
            there = ranked.has_dates or await self._store.count(collection, near)
            # Without a profile it need not be the date that texts tell of, nor "RFC 2046" a year.
            if there or question.date_field is not None:
                dated = Dated(name, periods, outside=not there)
        held_months = [period for period in said.held if period.is_month]
        if held_months and question.date_field is not None:
            held = AllOf((is_live, held_in(question.date_path, held_months)))
            denied = not await self._store.count(collection, held)
        premise = question.premise
        if premise is not None and not await self._store.count(collection, premise.so):
            denied = denied or await self._store.count(collection, premise.stated) > 0
        stating = {hit.id for hit in ranked.hits if question.is_asked_fact(hit)}
        return Probability(
            question.query,
            embedder,
            ranked.best,
            background,
            dated,
            ordered=question.asks_in_order,
            stating=stating | holding(shown, stating),
            replaced=question.replaced,
            denied=denied,
            others=self._profiles.get(collection, Profile()).names_of_others,
        )

    async def _best_by_word(self, collection: str, *words: Sequence[int]) -> dict[int, float]:
        """Word id → the best BM25 score that any passage has for it."""
        ids = list(dict.fromkeys(index for some in words for index in some))
        scores = await self._store.best_by_word(collection, Sparse(ids, [1.0] * len(ids)))
        return dict(zip(ids, scores, strict=True))


def _joined(matches: Sequence[Match], others: Sequence[Match]) -> list[Match]:
    known = {match.id for match in matches}
    return [*matches, *(match for match in others if match.id not in known)]


def _with_probability(hits: Sequence[SearchHit], probability: Probability) -> list[SearchHit]:
    """It reads the text of up to fifty passages, which would hold the event loop."""
    return [msgspec.structs.replace(hit, relevance=round(probability.of(hit), 4)) for hit in hits]


def _by_document(hits: Iterable[Hit]) -> tuple[list[Hit], list[Hit]]:
    """The first hit of each document, and the others."""
    first: dict[str, Hit] = {}
    others = [hit for hit in hits if first.setdefault(hit.payload["document_id"], hit) is not hit]
    return list(first.values()), others


def _to_hits(
    collection: str, hits: Iterable[Hit], question: Question, ranked: RankedHits
) -> list[SearchHit]:
    return [
        SearchHit(
            collection=collection,
            document_id=hit.payload["document_id"],
            chunk_id=hit.id,
            title=hit.payload["title"],
            text=hit.payload["text"],
            score=hit.score,
            cosine=min(1.0, max(0.0, hit.cosine)),
            literal=question.is_literal(hit),
            url=hit.payload.get("url"),
            section=hit.payload.get("section"),
            metadata=hit.payload.get("m") or {},
            start=hit.payload["start"],
            end=hit.payload["end"],
            content_hash=hit.payload["content_hash"],
            explanation=ranked.why.get(hit.id),
        )
        for hit in hits
    ]

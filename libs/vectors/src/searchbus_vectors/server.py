"""A Qdrant server or cluster, through the official asynchronous client."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar, cast

import httpx
from qdrant_client import AsyncQdrantClient
from qdrant_client import models as q
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from .filters import AllOf, AnyOf, DateRange, Equals, Filter, IsIn, Not, NumberRange
from .liveness import Liveness, NoAnswerError
from .points import DIMENSIONS, Candidate, Page, Point, QueryVectors, Record, Sparse, records_of
from .store import (
    CollectionMissingError,
    FieldType,
    StorageFullError,
    StoreError,
    StoreUnavailableError,
    Tls,
    VectorStore,
)

T = TypeVar("T")
_DENSE, _SPARSE = "dense", "sparse"
_POINTS_PER_REQUEST = 256
"""A larger request might exceed the server's limit of 32 MB."""
_TIMEOUT_S = 30
_AWAY = (httpx.codes.BAD_GATEWAY, httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.GATEWAY_TIMEOUT)
_NO_SPACE = re.compile(rb"No space left|available disk space", re.IGNORECASE)


class ServerStore(VectorStore):
    """Collections on a server. Make it with `open`."""

    engine = "server"

    def __init__(
        self, client: AsyncQdrantClient, url: str, *, local: bool, tls: Tls | None = None
    ) -> None:
        self._client = client
        self._tls = tls
        self._url = url.rpartition("@")[2]  # messages and logs show it, without credentials
        self._local = local
        self._liveness = Liveness(f"Qdrant at {self._url}", self._probe)

    @classmethod
    async def open(
        cls, place: str, *, api_key: str | None = None, tls: Tls | None = None,
        min_free_bytes: int = 0,
    ) -> ServerStore:  # fmt: skip
        """Connect to a URL, and check that the server answers."""
        local = place == ":memory:"
        if local:
            client = AsyncQdrantClient(location=place)
        else:
            # The client's own default reads the authorities of certifi, not of the system.
            verify: dict[str, Any] = {"verify": tls.context()} if tls is not None else {}
            client = AsyncQdrantClient(url=place, api_key=api_key, timeout=_TIMEOUT_S, **verify)
        self = cls(client, place, local=local, tls=tls)
        try:
            await self.check()
        except StoreError:
            await self.close()
            raise
        except UnexpectedResponse as error:
            await self.close()
            if error.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
                raise StoreUnavailableError(
                    f"Qdrant at {self._url} refuses the key ({error.status_code}). "
                    "Set SEARCHBUS_QDRANT_API_KEY to the key of that server."
                ) from error
            raise self._unavailable(f"answered {error.status_code}") from error
        return self

    async def ensure_collection(
        self, name: str, fields: Mapping[str, FieldType], *, dimensions: int = DIMENSIONS
    ) -> None:
        """Create the collection and its payload indexes."""
        if not await self._request(name, self._client.collection_exists(name)):
            vectors = {_DENSE: q.VectorParams(size=dimensions, distance=q.Distance.COSINE)}
            sparse = {_SPARSE: q.SparseVectorParams(modifier=q.Modifier.IDF)}
            try:
                await self._request(
                    name,
                    self._client.create_collection(
                        name, vectors_config=vectors, sparse_vectors_config=sparse
                    ),
                )
            except UnexpectedResponse as error:
                if error.status_code != httpx.codes.CONFLICT:  # another replica created it first
                    raise
        if self._local:  # the local mode has no payload indexes and warns about each
            return
        for field_name, kind in fields.items():
            schema = q.PayloadSchemaType(kind)
            await self._request(
                name,
                self._client.create_payload_index(name, field_name, field_schema=schema, wait=True),
            )

    async def collections(self) -> list[str]:
        """Names of the collections."""
        found = await self._request("", self._client.get_collections())
        return sorted(c.name for c in found.collections)

    async def drop_collection(self, name: str) -> None:
        """Delete the collection."""
        await self._request(name, self._client.delete_collection(name))

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Store points and wait until they are applied."""
        for start in range(0, len(points), _POINTS_PER_REQUEST):
            batch = [_to_point(p) for p in points[start : start + _POINTS_PER_REQUEST]]
            await self._request(collection, self._client.upsert(collection, batch, wait=True))

    async def set_payload(self, collection: str, where: Filter, payload: dict[str, Any]) -> None:
        """Merge keys into payloads."""
        await self._request(
            collection,
            self._client.set_payload(collection, payload, points=_to_filter(where), wait=True),
        )

    async def delete(self, collection: str, where: Filter) -> None:
        """Delete every point that matches."""
        selector = q.FilterSelector(filter=_to_filter(where))
        await self._request(collection, self._client.delete(collection, selector, wait=True))

    async def _get(self, collection: str, ids: Sequence[str]) -> list[Record]:
        found = await self._request(
            collection, self._client.retrieve(collection, list(ids), with_payload=True)
        )
        return records_of(found)

    async def scroll(
        self, collection: str, *, where: Filter | None = None, limit: int = 100,
        start_id: str | None = None,
    ) -> Page:  # fmt: skip
        """Points in order of id."""
        records, next_id = await self._request(
            collection,
            self._client.scroll(
                collection, scroll_filter=_to_filter(where) if where else None, limit=limit,
                offset=start_id, with_payload=True,
            ),
        )  # fmt: skip
        return Page(records_of(records), None if next_id is None else str(next_id))

    async def count(self, collection: str, where: Filter | None = None) -> int:
        """The number of points that match."""
        condition = _to_filter(where) if where else None
        found = await self._request(
            collection, self._client.count(collection, count_filter=condition, exact=True)
        )
        return found.count

    async def close(self) -> None:
        """Close the connections."""
        await self._liveness.close()
        await self._client.close()

    async def _candidates(
        self, collection: str, query: QueryVectors, where: Filter | None, limit: int
    ) -> tuple[list[Candidate], list[Candidate]]:
        condition = _to_filter(where) if where else None

        async def one(vector: Any, using: str) -> list[Candidate]:
            found = await self._request(
                collection,
                self._client.query_points(
                    collection, query=vector, using=using, limit=limit, query_filter=condition,
                    with_payload=False,
                ),
            )  # fmt: skip
            return [Candidate(str(p.id), p.score) for p in found.points]

        if not query.sparse.indices:
            return await one(query.dense, _DENSE), []
        terms = q.SparseVector(indices=query.sparse.indices, values=query.sparse.values)
        dense, sparse = await asyncio.gather(one(query.dense, _DENSE), one(terms, _SPARSE))
        return dense, sparse

    async def _cosines(
        self, collection: str, query: QueryVectors, ids: Sequence[str]
    ) -> dict[str, float]:
        found = await self._request(
            collection,
            self._client.query_points(
                collection, query=query.dense, using=_DENSE, limit=len(ids), with_payload=False,
                query_filter=q.Filter(must=[q.HasIdCondition(has_id=list(ids))]),
                search_params=q.SearchParams(exact=True),
            ),
        )  # fmt: skip
        return {str(p.id): p.score for p in found.points}

    async def best_by_word(self, collection: str, words: Sparse) -> list[float]:
        """All words in one request."""
        replies = await self._by_word(collection, words.indices, 1)
        return [max((point.score for point in reply.points), default=0.0) for reply in replies]

    async def count_by_word(
        self, collection: str, indices: Sequence[int], *, most: int
    ) -> list[int]:
        """All words in one request."""
        replies = await self._by_word(collection, indices, most)
        return [len(reply.points) for reply in replies]

    async def _by_word(
        self, collection: str, indices: Sequence[int], limit: int
    ) -> list[q.QueryResponse]:
        if not indices:
            return []
        requests = [
            q.QueryRequest(
                query=q.SparseVector(indices=[index], values=[1.0]), using=_SPARSE, limit=limit,
                with_payload=False,
            )
            for index in indices
        ]  # fmt: skip
        return await self._request(
            collection, self._client.query_batch_points(collection, requests)
        )

    async def _request(self, collection: str, call: Coroutine[Any, Any, T]) -> T:
        """Await a call of the client; its failures become those of `StoreError`."""
        try:
            return await (call if self._local else self._liveness.run(call))
        except UnexpectedResponse as error:
            if error.status_code == httpx.codes.NOT_FOUND and collection:
                raise CollectionMissingError(collection) from None
            if _NO_SPACE.search(error.content):
                raise StorageFullError("the disk of the Qdrant server is full") from error
            if error.status_code in _AWAY:
                self._liveness.lost()
            if error.status_code is None or error.status_code < httpx.codes.INTERNAL_SERVER_ERROR:
                raise
            raise self._unavailable(f"answered {error.status_code}") from error
        except ResourceExhaustedResponse as error:
            raise self._unavailable("refuses more requests for now") from error
        except ResponseHandlingException as error:
            if isinstance(error.source, httpx.TransportError):
                self._liveness.lost()
            raise self._unavailable(cause=error.source) from error
        except (NoAnswerError, OSError) as error:
            raise self._unavailable(cause=error) from error
        except ValueError:  # the local mode raises it for a missing collection
            if self._local and not await self._client.collection_exists(collection):
                raise CollectionMissingError(collection) from None
            raise

    async def _probe(self) -> None:
        """Any answer of the server itself will do, also one that refuses the key."""
        try:
            await self._client.info()
        except UnexpectedResponse as error:
            if error.status_code in _AWAY:
                raise

    def _unavailable(
        self, why: str = "does not respond", *, cause: BaseException | None = None
    ) -> StoreUnavailableError:
        tls = self._tls.explain(f"Qdrant at {self._url}", cause) if self._tls is not None else ""
        return StoreUnavailableError(
            tls or f"Qdrant at {self._url} {why}. Start it, or correct SEARCHBUS_QDRANT_URL."
        )


def _to_point(point: Point) -> q.PointStruct:
    vector: dict[str, Any] = {}
    if point.vectors is not None:
        sparse = point.vectors.sparse
        vector[_DENSE] = point.vectors.dense
        vector[_SPARSE] = q.SparseVector(indices=sparse.indices, values=sparse.values)
    return q.PointStruct(id=point.id, vector=vector, payload=point.payload)


def _to_filter(tree: Filter) -> q.Filter:
    match tree:
        case AllOf(parts):
            return q.Filter(must=[_to_filter(part) for part in parts])
        case AnyOf(parts):
            return q.Filter(should=[_to_filter(part) for part in parts])
        case Not(part):
            return q.Filter(must_not=[_to_filter(part)])
        case Equals(field, value):
            condition = q.FieldCondition(key=field, match=q.MatchValue(value=value))
        case IsIn(field, values):
            any_of = cast(list[str], list(values))
            condition = q.FieldCondition(key=field, match=q.MatchAny(any=any_of))
        case NumberRange(field, gt, gte, lt, lte):
            condition = q.FieldCondition(key=field, range=q.Range(gt=gt, gte=gte, lt=lt, lte=lte))
        case DateRange(field, gt, gte, lt, lte):
            condition = q.FieldCondition.model_validate(
                {"key": field, "range": {"gt": gt, "gte": gte, "lt": lt, "lte": lte}}
                if (gt or gte or lt or lte)
                else {"key": field}
            )
    return q.Filter(must=[condition])

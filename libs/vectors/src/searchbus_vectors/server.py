"""A Qdrant server or cluster, through the official asynchronous client.

A collection is an alias of a numbered one, `docs` of `docs~1`, so that another can take its place
without a moment in which there is none.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import grpc
import httpx
from qdrant_client import AsyncQdrantClient
from qdrant_client import models as q
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from .filters import Filter
from .liveness import Liveness, NoAnswerError
from .options import StoreOptions
from .points import (
    DENSE,
    DIMENSIONS,
    SPARSE,
    Candidate,
    Point,
    QueryVectors,
    Record,
    Sparse,
    only_of,
    records_of,
)
from .server_types import (
    TIMEOUT_S,
    address_of,
    alias,
    base_of,
    connect,
    content_of,
    status_of,
    to_collection,
    to_filter,
    to_point,
    to_search,
)
from .store import (
    CollectionMissingError,
    FieldType,
    StorageFullError,
    StoreError,
    StoreUnavailableError,
    VectorStore,
)

T = TypeVar("T")
_POINTS_PER_REQUEST = 256
"""A larger request might exceed the server's limit of 32 MB."""
_NUMBER = re.compile(r"~\d+$")
_AWAY = (httpx.codes.BAD_GATEWAY, httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.GATEWAY_TIMEOUT)
_SHARE_OF_TIME = 0.9
"""The rest of a request's time is for its answer."""
_NO_SPACE = re.compile(rb"No space left|available disk space", re.IGNORECASE)


class ServerStore(VectorStore):
    """Collections on a server. Make it with `open`."""

    engine = "server"

    def __init__(
        self, client: AsyncQdrantClient, url: str, options: StoreOptions, *, local: bool
    ) -> None:
        self._client = client
        self._name = "Qdrant" if local else f"Qdrant at {address_of(url)}"
        self._options = options
        self._local = local
        self._was_let_in = False
        self._liveness = Liveness(self._name, self._probe)

    @classmethod
    async def open(cls, place: str, options: StoreOptions) -> ServerStore:
        """Connect to a URL, and check that the server answers; takes all options but the space."""
        local = place == ":memory:"
        client = AsyncQdrantClient(location=place) if local else connect(place, options)
        self = cls(client, place, options, local=local)
        try:
            await self.check()
        except StoreError:
            await self.close()
            raise
        except (UnexpectedResponse, grpc.RpcError) as error:
            await self.close()
            raise self._unavailable(f"answered {status_of(error)}") from error
        return self

    async def check(self) -> None:
        """Any list of collections will do."""
        await self._request("", self._client.get_collections())
        self._was_let_in = True

    async def ensure_collection(
        self, name: str, fields: Mapping[str, FieldType], *, dimensions: int = DIMENSIONS
    ) -> None:
        """Create the collection and its payload indexes; raises StoreUnavailableError where
        another program has one of this name."""
        if name in (aliases := await self._aliases()):
            self._require_ours(name, aliases[name])
        else:
            taken = await self._request("", self._client.get_collections())
            if name in [one.name for one in taken.collections]:  # aliases are not among them
                self._require_ours(name, name)
            await self._create(name, dimensions)
        if self._local:  # the local mode has no payload indexes and warns about each
            return
        for field_name, kind in fields.items():
            schema = q.PayloadSchemaType(kind)
            await self._request(
                name,
                self._client.create_payload_index(
                    name, field_name, field_schema=schema, wait=True, timeout=TIMEOUT_S
                ),
            )

    def _require_ours(self, name: str, target: str) -> None:
        if not _NUMBER.search(target):
            raise StoreUnavailableError(
                f"{self._name} has a collection {name} of another program.",
                "Take another name.",
                retryable=False,
            )

    async def _create(self, name: str, dimensions: int) -> None:
        base = base_of(name)
        # The next number: what a crash left without an alias is used, what was replaced is not.
        # Replicas that create the same collection at once choose the same number.
        numbers = [int(target.rpartition("~")[2]) for target in (await self._aliases()).values()
                   if _NUMBER.sub("", target) == base]  # fmt: skip
        target = f"{base}~{max(numbers, default=0) + 1}"
        settings = to_collection(self._options.layout(base), dimensions)
        try:
            await self._request(
                name, self._client.create_collection(target, timeout=TIMEOUT_S, **settings)
            )
        except (UnexpectedResponse, grpc.RpcError) as error:
            if status_of(error) != httpx.codes.CONFLICT:
                raise
        await self._change_aliases(alias(name, target))

    async def collections(self) -> list[str]:
        """Names of the collections."""
        return sorted(await self._aliases())

    async def rename_collection(self, name: str, to: str) -> None:
        """Point the alias at another collection."""
        aliases = await self._aliases()
        target = aliases.get(name)
        if target is None:
            raise CollectionMissingError(name)
        self._require_ours(to, aliases.get(to, target))
        await self._change_aliases(
            alias(to, target),
            q.DeleteAliasOperation(delete_alias=q.DeleteAlias(alias_name=name)),
        )
        if to in aliases:
            await self._delete(aliases[to])

    async def _aliases(self) -> dict[str, str]:
        found = await self._request("", self._client.get_aliases())
        return {alias.alias_name: alias.collection_name for alias in found.aliases}

    async def _change_aliases(
        self, *changes: q.CreateAliasOperation | q.DeleteAliasOperation
    ) -> None:
        await self._request(
            "", self._client.update_collection_aliases(list(changes), timeout=TIMEOUT_S)
        )

    async def _delete(self, target: str) -> None:
        await self._request(target, self._client.delete_collection(target, timeout=TIMEOUT_S))

    async def drop_collection(self, name: str) -> None:
        """Delete the collection, and its alias with it; not one of another program."""
        target = (await self._aliases()).get(name, "")
        if _NUMBER.search(target):
            await self._delete(target)

    async def upsert(self, collection: str, points: Sequence[Point]) -> None:
        """Store points and wait until they are applied."""
        for start in range(0, len(points), _POINTS_PER_REQUEST):
            batch = [to_point(p) for p in points[start : start + _POINTS_PER_REQUEST]]
            await self._request(
                collection,
                self._client.upsert(collection, batch, wait=True, timeout=TIMEOUT_S),
            )

    async def set_payload(self, collection: str, where: Filter, payload: dict[str, Any]) -> None:
        """Merge keys into payloads."""
        await self._request(
            collection,
            self._client.set_payload(
                collection, payload, points=to_filter(where), wait=True, timeout=TIMEOUT_S
            ),
        )

    async def delete(self, collection: str, where: Filter) -> None:
        """Delete every point that matches."""
        selector = q.FilterSelector(filter=to_filter(where))
        await self._request(
            collection, self._client.delete(collection, selector, wait=True, timeout=TIMEOUT_S)
        )

    async def _get(self, collection: str, ids: Sequence[str]) -> list[Record]:
        found = await self._read(
            collection,
            self._client.retrieve(
                collection, list(ids), with_payload=True, timeout=self._timeout_s
            ),
        )
        return records_of(found)

    async def _scroll(
        self, collection: str, where: Filter | None, limit: int, start_id: str | None, *,
        vectors: bool,
    ) -> tuple[Sequence[Any], Any]:  # fmt: skip
        return await self._read(
            collection,
            self._client.scroll(
                collection, scroll_filter=to_filter(where) if where else None, limit=limit,
                offset=start_id, with_payload=True, with_vectors=vectors, timeout=self._timeout_s,
            ),
        )  # fmt: skip

    async def count(self, collection: str, where: Filter | None = None) -> int:
        """The number of points that match."""
        condition = to_filter(where) if where else None
        found = await self._read(
            collection,
            self._client.count(
                collection, count_filter=condition, exact=True, timeout=self._timeout_s
            ),
        )
        return found.count

    async def close(self) -> None:
        """Close the connections."""
        await self._liveness.close()
        await self._client.close()

    async def _candidates(
        self, collection: str, query: QueryVectors, where: Filter | None, limit: int
    ) -> tuple[list[Candidate], list[Candidate], list[Candidate]]:
        condition = to_filter(where) if where else None
        how = to_search(self._options.layout(base_of(collection)))

        async def one(vector: Any, using: str) -> list[Candidate]:
            found = await self._read(
                collection,
                self._client.query_points(
                    collection, query=vector, using=using, limit=limit, query_filter=condition,
                    with_payload=False, search_params=how if using == DENSE else None,
                    timeout=self._timeout_s,
                ),
            )  # fmt: skip
            return [Candidate(str(p.id), p.score) for p in found.points]

        if not query.sparse.indices:
            return await one(query.dense, DENSE), [], []
        terms = q.SparseVector(indices=query.sparse.indices, values=query.sparse.values)
        dense, sparse = await asyncio.gather(one(query.dense, DENSE), one(terms, SPARSE))
        ids = only_of(sparse, dense)
        return dense, sparse, await self._cosines(collection, query, ids) if ids else []

    async def _cosines(
        self, collection: str, query: QueryVectors, ids: Sequence[str]
    ) -> list[Candidate]:
        found = await self._read(
            collection,
            self._client.query_points(
                collection, query=query.dense, using=DENSE, limit=len(ids), with_payload=False,
                query_filter=q.Filter(must=[q.HasIdCondition(has_id=list(ids))]),
                search_params=q.SearchParams(exact=True), timeout=self._timeout_s,
            ),
        )  # fmt: skip
        return [Candidate(str(p.id), p.score) for p in found.points]

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
                query=q.SparseVector(indices=[index], values=[1.0]), using=SPARSE, limit=limit,
                with_payload=False,
            )
            for index in indices
        ]  # fmt: skip
        return await self._read(
            collection,
            self._client.query_batch_points(collection, requests, timeout=self._timeout_s),
        )

    async def _read(self, collection: str, call: Coroutine[Any, Any, T]) -> T:
        """As `_request`, within the time of the request at hand: its caller learns who was slow."""
        left_s = self._options.remaining_s()
        within_s = _SHARE_OF_TIME * left_s if left_s is not None and left_s > 0 else None
        return await self._request(collection, call, within_s=within_s)

    async def _request(
        self, collection: str, call: Coroutine[Any, Any, T], *, within_s: float | None = None
    ) -> T:
        """Await a call of the client; its failures become those of `StoreError`."""
        try:
            return await (call if self._local else self._liveness.run(call, within_s=within_s))
        except (UnexpectedResponse, grpc.RpcError) as error:
            status, content = status_of(error), content_of(error)
            if status == httpx.codes.NOT_FOUND and collection:
                raise CollectionMissingError(collection) from None
            if _NO_SPACE.search(content):
                raise StorageFullError("the disk of the Qdrant server is full") from error
            if status in _AWAY:
                self._liveness.lost(error)
                raise self._unavailable() from error
            if status == httpx.codes.REQUEST_TIMEOUT:
                raise self._unavailable("did not finish in time") from error
            if status == httpx.codes.TOO_MANY_REQUESTS:
                raise self._unavailable("refuses more requests for now") from error
            if status in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
                raise StoreUnavailableError(
                    f"{self._name} refuses the key ({status}).",
                    "Set SEARCHBUS_QDRANT_API_KEY to the key of that server.",
                    # Later, while keys are replaced, another node may still take this one.
                    retryable=self._was_let_in,
                ) from error
            if status == httpx.codes.CONFLICT:
                raise
            # The same request would be refused again; 404 without a collection is another server.
            if 400 <= status < 500 and status != httpx.codes.NOT_FOUND:
                raise StoreUnavailableError(
                    f"{self._name} refuses the request ({status}).",
                    "Look into its log; a proxy before it may limit the size of requests.",
                    retryable=False,
                ) from error
            raise self._unavailable(f"answered {status}") from error
        except ResourceExhaustedResponse as error:
            raise self._unavailable("refuses more requests for now") from error
        except ResponseHandlingException as error:
            if isinstance(error.source, httpx.ReadTimeout | httpx.WriteTimeout):
                # It is there, else its probe had failed.
                raise self._unavailable("did not finish in time") from error
            if isinstance(error.source, httpx.TransportError):
                self._liveness.lost(error)
            raise self._unavailable(cause=error.source) from error
        except TimeoutError as error:
            raise self._unavailable("did not finish in time") from error
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
        except (UnexpectedResponse, grpc.RpcError) as error:
            if status_of(error) in _AWAY:
                raise

    @property
    def _timeout_s(self) -> int:
        """What a read may take: the time left of its request, in whole seconds, at least one."""
        left_s = self._options.remaining_s()
        return TIMEOUT_S if left_s is None else max(1, min(TIMEOUT_S, math.ceil(left_s)))

    def _unavailable(
        self, why: str = "does not respond", *, cause: BaseException | None = None
    ) -> StoreUnavailableError:
        files = self._options.tls
        tls = files.explain(self._name, cause) if files is not None else ""
        return StoreUnavailableError(
            f"{self._name} {why}.", tls or "Start it, or correct SEARCHBUS_QDRANT_URL."
        )

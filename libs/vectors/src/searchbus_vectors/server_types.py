"""Points, filters, collections, connections and failures in the types of qdrant-client."""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import urlsplit

import grpc
import httpx
from qdrant_client import AsyncQdrantClient
from qdrant_client import models as q
from qdrant_client.http.exceptions import UnexpectedResponse

from .filters import AllOf, AnyOf, DateRange, Equals, Filter, IsIn, Not, NumberRange
from .options import Layout, StoreOptions
from .points import DENSE, SPARSE, Point
from .store import StoreUnavailableError

TIMEOUT_S = 30
"""How long a write may take, and what belongs to no request."""
_PORT = 6333
"""The port of a server whose URL has none, as the client takes it."""
_OVERSAMPLING = {"scalar": 2.0, "binary": 8.0}
"""Quantized candidates for each one wanted, which the originals put in order."""


def to_collection(layout: Layout, dimensions: int) -> dict[str, Any]:
    """The arguments of `create_collection`."""
    on_disk = layout.originals_on_disk
    quantization: q.ScalarQuantization | q.BinaryQuantization | None = None
    if layout.quantized == "scalar":
        quantization = q.ScalarQuantization(
            scalar=q.ScalarQuantizationConfig(type=q.ScalarType.INT8, always_ram=True)
        )
    elif layout.quantized == "binary":
        quantization = q.BinaryQuantization(binary=q.BinaryQuantizationConfig(always_ram=True))
    return {
        "vectors_config": {
            DENSE: q.VectorParams(size=dimensions, distance=q.Distance.COSINE, on_disk=on_disk)
        },
        "sparse_vectors_config": {
            SPARSE: q.SparseVectorParams(
                modifier=q.Modifier.IDF, index=q.SparseIndexParams(on_disk=on_disk)
            )
        },
        "hnsw_config": q.HnswConfigDiff(m=layout.hnsw_m, ef_construct=layout.hnsw_ef_construct),
        "quantization_config": quantization,
        "shard_number": layout.shard_count,
        "replication_factor": layout.replicas,
        "write_consistency_factor": layout.copies_written,
        "on_disk_payload": True,
    }


def to_search(layout: Layout) -> q.SearchParams | None:
    """How the nearest vectors of a collection are searched."""
    if layout.quantized == "none":
        return None
    quantized = q.QuantizationSearchParams(
        rescore=True, oversampling=_OVERSAMPLING[layout.quantized]
    )
    return q.SearchParams(quantization=quantized)


def to_point(point: Point) -> q.PointStruct:
    """A point in the client's types."""
    vector: dict[str, Any] = {}
    if point.vectors is not None:
        sparse = point.vectors.sparse
        vector[DENSE] = point.vectors.dense
        vector[SPARSE] = q.SparseVector(indices=sparse.indices, values=sparse.values)
    return q.PointStruct(id=point.id, vector=vector, payload=point.payload)


def to_filter(tree: Filter) -> q.Filter:
    """A filter in the client's types."""
    match tree:
        case AllOf(parts):
            return q.Filter(must=[to_filter(part) for part in parts])
        case AnyOf(parts):
            return q.Filter(should=[to_filter(part) for part in parts])
        case Not(part):
            return q.Filter(must_not=[to_filter(part)])
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


_STATUS = {
    grpc.StatusCode.NOT_FOUND: httpx.codes.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS: httpx.codes.CONFLICT,
    grpc.StatusCode.INVALID_ARGUMENT: httpx.codes.BAD_REQUEST,
    grpc.StatusCode.UNAUTHENTICATED: httpx.codes.UNAUTHORIZED,
    grpc.StatusCode.PERMISSION_DENIED: httpx.codes.FORBIDDEN,
    grpc.StatusCode.DEADLINE_EXCEEDED: httpx.codes.REQUEST_TIMEOUT,
    grpc.StatusCode.RESOURCE_EXHAUSTED: httpx.codes.TOO_MANY_REQUESTS,
    grpc.StatusCode.UNAVAILABLE: httpx.codes.SERVICE_UNAVAILABLE,
}


def address_of(url: str) -> str:
    """Host and port of a server's URL, which may lack its scheme; never its credentials. Raises
    StoreUnavailableError where it cannot be read."""
    try:
        parts = urlsplit(url if "//" in url else f"//{url}")
        host, port = parts.hostname or "", parts.port or _PORT
    except ValueError:  # its text may have the password
        raise StoreUnavailableError(
            "The URL of the Qdrant server cannot be read.",
            "Correct SEARCHBUS_QDRANT_URL; write / in a password as %2F.",
            retryable=False,
        ) from None
    return f"{f'[{host}]' if ':' in host else host}:{port}"


def base_of(name: str) -> str:
    """The collection that a name is of, without what follows `~`."""
    return name.partition("~")[0]


def alias(name: str, target: str) -> q.CreateAliasOperation:
    """The change that makes a name an alias of a collection."""
    return q.CreateAliasOperation(
        create_alias=q.CreateAlias(collection_name=target, alias_name=name)
    )


def connect(url: str, options: StoreOptions) -> AsyncQdrantClient:
    """A client that connects at its first request; raises as `address_of`."""
    address_of(url)  # the client's own error would show the whole URL
    more: dict[str, Any] = {}
    if options.grpc_port is not None:
        more = {"prefer_grpc": True, "grpc_port": options.grpc_port}
    if options.tls is not None:
        # The client's own default reads the authorities of certifi, not of the system.
        more["verify"] = options.tls.context()
        files = {
            "root_certificates": options.tls.ca,
            "certificate_chain": options.tls.certificate,
            "private_key": options.tls.key,
        }
        more["grpc_options"] = {name: path.read_bytes() for name, path in files.items() if path}
    return AsyncQdrantClient(url=url, api_key=options.api_key, timeout=TIMEOUT_S, **more)


def status_of(error: UnexpectedResponse | grpc.RpcError) -> int:
    """The HTTP status that says what a server answered."""
    if isinstance(error, UnexpectedResponse):
        return error.status_code or httpx.codes.BAD_REQUEST
    return _STATUS.get(error.code(), httpx.codes.INTERNAL_SERVER_ERROR)


def content_of(error: UnexpectedResponse | grpc.RpcError) -> bytes:
    """The message of a server."""
    if isinstance(error, UnexpectedResponse):
        return error.content
    return str(error.details()).encode()

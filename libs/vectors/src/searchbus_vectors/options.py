"""What a store is opened with, and how a server keeps each collection.

    Layout()                                          # 1 shard, vectors in memory as they are
    Layout(expected_passages=5_000_000, replicas=3)   # 5 shards, int8 in memory, originals on disk

What is not set follows from `expected_passages`. A layout counts when a collection is made: to
change it, make the collection anew (`searchbus ingest --rebuild`).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Literal, Protocol

LARGE_PASSAGES = 200_000
"""From here on int8 vectors are in memory, 80 MB, and the 310 MB of float32 on disk."""
PASSAGES_PER_SHARD = 1_000_000
_LIMITS = {
    "expected_passages": (1, 10**10),
    "hnsw_m": (4, 128),
    "hnsw_ef_construct": (4, 4096),
    "shards": (1, 1024),
    "replicas": (1, 64),
    "write_consistency": (1, 64),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a Qdrant server keeps a collection; the embedded engine has no such choice.

    Args:
        quantization: `scalar`: int8, a quarter of the memory; `binary`: one bit, 1/32, for models
            of 1,024 dimensions and more. Candidates are scored again by the originals.
        on_disk: whether the originals and BM25's index are read from the disk.
        hnsw_m, hnsw_ef_construct: links of a vector in the graph, and candidates as it is built.
        replicas: copies of each shard, on nodes of their own.
        write_consistency: copies that must have a write before it counts; half of them, rounded up.

    Raises:
        ValueError: a number is out of its range.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}
    """A setting with a wrong name is refused."""

    expected_passages: int = 50_000
    quantization: Literal["none", "scalar", "binary"] | None = None
    on_disk: bool | None = None
    hnsw_m: int = 16
    hnsw_ef_construct: int = 100
    shards: int | None = None
    replicas: int = 1
    write_consistency: int | None = None

    def __post_init__(self) -> None:
        for name, (least, most) in _LIMITS.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise ValueError(f"{name} must be {least} to {most}, not {value}")
        if self.copies_written > self.replicas:
            raise ValueError(
                f"write_consistency is {self.copies_written}, but there are {self.replicas} "
                "replicas: no write could end. Raise replicas or lower it"
            )

    @property
    def quantized(self) -> Literal["none", "scalar", "binary"]:
        """How vectors are kept in memory."""
        large = self.expected_passages >= LARGE_PASSAGES
        return self.quantization or ("scalar" if large else "none")

    @property
    def originals_on_disk(self) -> bool:
        """Whether float32 vectors are read from the disk."""
        return self.quantized != "none" if self.on_disk is None else self.on_disk

    @property
    def shard_count(self) -> int:
        """The number of shards."""
        return self.shards or -(-self.expected_passages // PASSAGES_PER_SHARD)

    @property
    def copies_written(self) -> int:
        """The copies that must have a write before it counts."""
        return self.write_consistency or (self.replicas + 1) // 2


class Tls(Protocol):
    """The files of TLS to a server: of the authority, and of this client."""

    @property
    def ca(self) -> Path | None:
        """The authority's certificates; None: those of the system."""

    @property
    def certificate(self) -> Path | None:
        """This client's certificate."""

    @property
    def key(self) -> Path | None:
        """Its key."""

    def context(self) -> ssl.SSLContext:
        """Read them."""

    def explain(self, server: str, error: BaseException | None) -> str:
        """One line on why a handshake failed; empty where TLS is not the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """What each engine takes of it is said at the engine.

    Args:
        min_free_bytes: of the folder's disk; the embedded engine writes nothing below that.
        tls: the files of TLS to the server; None trusts the authorities that the client brings.
        grpc_port: of the server, whose requests then go by gRPC; None: by HTTP.
        layouts: collection → how a server keeps it; `*` stands for every other.
        remaining_s: the time left of the request at hand, None outside of one; a server stops
            reading after it.
    """

    api_key: str | None = None
    min_free_bytes: int = 0
    tls: Tls | None = None
    grpc_port: int | None = None
    layouts: Mapping[str, Layout] = field(default_factory=lambda: MappingProxyType({}))
    remaining_s: Callable[[], float | None] = lambda: None

    def layout(self, collection: str) -> Layout:
        """The layout of a collection that is made now."""
        return self.layouts.get(collection) or self.layouts.get("*") or Layout()

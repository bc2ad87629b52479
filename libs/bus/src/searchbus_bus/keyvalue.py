"""A small key-value store that workers share: NATS KV in memory storage, or a dictionary in tests.

    cache = await bus.key_value("cache", ttl_s=600, max_bytes=64 * 2**20)
    revision = await cache.create("lease", b"mine")      # None: the key is taken

Nothing durable: a restart of NATS empties a bucket, and its next use creates it again. Every
operation raises Fault(unavailable) while the store is unreachable. The two implementations are in
keyvalue_nats.py and keyvalue_memory.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["Entry", "KeyValue"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A value and the revision it was written with."""

    value: bytes
    revision: int


class KeyValue(Protocol):
    """One bucket. Keys are 1 to 64 of A-Z a-z 0-9 _ - and dots between them."""

    async def get(self, key: str) -> Entry | None:
        """The entry of a key; None where the key does not exist or has expired."""

    async def put(self, key: str, value: bytes) -> int:
        """Write a value and return its revision."""

    async def create(self, key: str, value: bytes) -> int | None:
        """Write a new key and return its revision; None where the key exists."""

    async def update(self, key: str, value: bytes, revision: int) -> int | None:
        """Replace the value of that revision; None where another write came first."""

    async def delete(self, key: str) -> None:
        """Delete a key; a missing one is no error."""

    async def keys(self) -> list[str]:
        """Every key, sorted."""

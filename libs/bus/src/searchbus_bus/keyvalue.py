"""A small key-value store that workers share: NATS KV in memory storage, or a dictionary in tests.

    cache = await bus.key_value("cache", ttl_s=600, max_bytes=64 * 2**20)
    revision = await cache.create("lease", b"mine")      # None: the key is taken

Nothing durable: a restart of NATS empties a bucket. An operation raises Fault(unavailable) where
the store does not answer within the bucket's `timeout_s`; from then on every operation fails at
once, until the bucket was opened again in the background. The two implementations are in
keyvalue_nats.py and keyvalue_memory.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

__all__ = ["TIMEOUT_S", "Entry", "KeyValue", "OnWrite"]

TIMEOUT_S = 0.1
"""Of an operation, unless a bucket has another: what a call may lose when the store goes away."""

OnWrite = Callable[[str, bytes | None], None]
"""Called with the key and its new value; None where it was deleted. Must be quick."""


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

    async def delete(self, key: str, revision: int | None = None) -> None:
        """Delete a key; a missing one is no error.

        Args:
            revision: delete that one only; a later write stays.
        """

    async def keys(self) -> list[str]:
        """Every key, sorted; one that was deleted may be among them for two seconds."""

    async def watch(self, on_write: OnWrite) -> None:
        """Call back for every write from now on, until the connection is closed.

        A write that lost its compare and set is reported too, so a watched key should have one
        writer. Not reported: that an entry expired, and what happened while the store was
        unreachable. Read the keys again from time to time.
        """

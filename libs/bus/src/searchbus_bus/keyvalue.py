"""A small shared memory of the workers: NATS KV in memory storage, or a dictionary in tests.

    cache = await bus.key_value("cache", ttl_s=600, max_bytes=64 * 2**20)
    revision = await cache.create("lease", b"mine")      # None: somebody was first

Nothing durable: a restart of NATS empties it, and the bucket is made again at the next use. Every
operation raises Fault(unavailable) while it cannot be reached.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js.api import KeyValueConfig, StorageType
from nats.js.kv import KeyValue as NatsBucket

from searchbus_contracts import ErrorCode, Fault

__all__ = ["Entry", "KeyValue", "MemoryKeyValue", "NatsKeyValue"]

TIMEOUT_S = 2.0
MAX_VALUE_BYTES = 512 * 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """A value and the revision it was written with."""

    value: bytes
    revision: int


class KeyValue(Protocol):
    """One bucket. Keys are 1 to 64 of A-Z a-z 0-9 _ - and dots between them."""

    async def get(self, key: str) -> Entry | None:
        """The value, None where there is none or its time is over."""

    async def put(self, key: str, value: bytes) -> int:
        """Write; returns the revision."""

    async def create(self, key: str, value: bytes) -> int | None:
        """Write where nothing is; None: something was."""

    async def update(self, key: str, value: bytes, revision: int) -> int | None:
        """Write where that revision still stands; None: it was changed."""

    async def delete(self, key: str) -> None:
        """Remove; nothing happens where there is nothing."""

    async def keys(self) -> list[str]:
        """Every key, sorted."""


class NatsKeyValue:
    """A bucket of NATS JetStream in memory storage."""

    def __init__(self, client: Client, bucket: str, *, ttl_s: float, max_bytes: int) -> None:
        self._client = client
        self._config = KeyValueConfig(
            bucket=bucket, ttl=ttl_s, max_bytes=max_bytes, max_value_size=MAX_VALUE_BYTES,
            history=1, storage=StorageType.MEMORY,
        )  # fmt: skip
        self._bucket: NatsBucket | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> NatsBucket:
        """The bucket, made where it is missing.

        Raises:
            Fault: unavailable, also where the server has no JetStream.
        """
        async with self._opening:
            if self._bucket is None:
                context = self._client.jetstream(timeout=TIMEOUT_S)
                try:
                    self._bucket = await context.create_key_value(self._config)
                except nats.js.errors.BadRequestError:
                    # It is there with other limits: a rolling update; the older ones hold.
                    try:
                        self._bucket = await context.key_value(self._config.bucket)
                    except (nats.errors.Error, TimeoutError) as error:
                        raise _unavailable(error) from None
                except (nats.errors.Error, TimeoutError) as error:
                    raise _unavailable(error) from None
            return self._bucket

    async def get(self, key: str) -> Entry | None:
        """See KeyValue."""

        async def read(bucket: NatsBucket) -> Entry | None:
            try:
                found = await bucket.get(key)
            except nats.js.errors.KeyNotFoundError:  # also its kin for deleted keys
                return None
            return Entry(found.value or b"", found.revision or 0)

        found: Entry | None = await self._do(read)
        return found

    async def put(self, key: str, value: bytes) -> int:
        """See KeyValue."""
        return int(await self._do(lambda bucket: bucket.put(key, value)))

    async def create(self, key: str, value: bytes) -> int | None:
        """See KeyValue."""
        return await self._write(lambda bucket: bucket.create(key, value))

    async def update(self, key: str, value: bytes, revision: int) -> int | None:
        """See KeyValue."""
        return await self._write(lambda bucket: bucket.update(key, value, last=revision))

    async def delete(self, key: str) -> None:
        """See KeyValue."""
        await self._do(lambda bucket: bucket.delete(key))

    async def keys(self) -> list[str]:
        """See KeyValue."""

        async def read(bucket: NatsBucket) -> list[str]:
            try:
                return sorted(await bucket.keys())
            except nats.js.errors.NoKeysError:
                return []

        found: list[str] = await self._do(read)
        return found

    async def _write(self, operation: Callable[[NatsBucket], Any]) -> int | None:
        async def write(bucket: NatsBucket) -> int | None:
            try:
                return int(await operation(bucket))
            except nats.js.errors.KeyWrongLastSequenceError:
                return None

        written: int | None = await self._do(write)
        return written

    async def _do(self, operation: Callable[[NatsBucket], Any]) -> Any:
        bucket = await self.open()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                try:
                    return await operation(bucket)
                except nats.js.errors.NoStreamResponseError:
                    # The server restarted without its memory; nothing was written.
                    self._bucket = None
                    return await operation(await self.open())
        except (nats.errors.Error, TimeoutError) as error:
            # A server that restarted has no bucket any more: the next use makes it again.
            self._bucket = None
            raise _unavailable(error) from None


def _unavailable(error: BaseException) -> Fault:
    # JetStream's own reason, where it has one: "insufficient memory resources available".
    reason = getattr(error, "description", None) or type(error).__name__
    return Fault(ErrorCode.UNAVAILABLE, f"The shared memory is away ({reason}).")


class MemoryKeyValue:
    """The twin without a server; every connection of one broker shares it."""

    def __init__(self, *, ttl_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._ttl_s = ttl_s
        self._clock = clock
        self._entries: dict[str, tuple[Entry, float]] = {}
        self._revision = 0
        self.away = False
        """Set by tests: every operation fails as if the server were gone."""

    async def get(self, key: str) -> Entry | None:
        """See KeyValue."""
        await self._step()
        found = self._entries.get(key)
        if found is None or found[1] < self._clock():
            return None
        return found[0]

    async def put(self, key: str, value: bytes) -> int:
        """See KeyValue."""
        await self._step()
        return self._set(key, value)

    async def create(self, key: str, value: bytes) -> int | None:
        """See KeyValue."""
        return None if await self.get(key) is not None else self._set(key, value)

    async def update(self, key: str, value: bytes, revision: int) -> int | None:
        """See KeyValue."""
        found = await self.get(key)
        return self._set(key, value) if found and found.revision == revision else None

    async def delete(self, key: str) -> None:
        """See KeyValue."""
        await self._step()
        self._entries.pop(key, None)

    async def keys(self) -> list[str]:
        """See KeyValue."""
        await self._step()
        return sorted(key for key, (_, end_s) in self._entries.items() if end_s >= self._clock())

    def _set(self, key: str, value: bytes) -> int:
        self._revision += 1
        self._entries[key] = (Entry(value, self._revision), self._clock() + self._ttl_s)
        return self._revision

    async def _step(self) -> None:
        if self.away:
            raise Fault(ErrorCode.UNAVAILABLE, "The shared memory is away.")
        await asyncio.sleep(0)

"""A bucket of the key-value store in NATS JetStream, in memory storage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js.api import KeyValueConfig, StorageType
from nats.js.kv import KeyValue as NatsBucket

from searchbus_contracts import ErrorCode, Fault

from .keyvalue import Entry

__all__ = ["MAX_VALUE_BYTES", "TIMEOUT_S", "NatsKeyValue"]

TIMEOUT_S = 2.0
MAX_VALUE_BYTES = 512 * 1024


class NatsKeyValue:
    """One bucket, created at its first use.

    Args:
        ttl_s: how long an entry lives after it was written, in seconds.
        max_bytes: limit of all entries together.
    """

    def __init__(self, client: Client, bucket: str, *, ttl_s: float, max_bytes: int) -> None:
        self._client = client
        self._config = KeyValueConfig(
            bucket=bucket, ttl=ttl_s, max_bytes=max_bytes, max_value_size=MAX_VALUE_BYTES,
            history=1, storage=StorageType.MEMORY,
        )  # fmt: skip
        self._bucket: NatsBucket | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> NatsBucket:
        """The bucket, created where it does not exist.

        Raises:
            Fault: unavailable, also where the server has no JetStream.
        """
        async with self._opening:
            if self._bucket is None:
                try:
                    self._bucket = await self._create()
                except (nats.errors.Error, TimeoutError) as error:
                    raise _unavailable(error) from None
            return self._bucket

    async def _create(self) -> NatsBucket:
        context = self._client.jetstream(timeout=TIMEOUT_S)
        try:
            return await context.create_key_value(self._config)
        except nats.js.errors.BadRequestError:
            # It exists with other limits, in a rolling update: the existing limits stay.
            return await context.key_value(self._config.bucket)

    async def get(self, key: str) -> Entry | None:
        """See KeyValue."""

        async def read(bucket: NatsBucket) -> Entry | None:
            try:
                found = await bucket.get(key)
            except nats.js.errors.KeyNotFoundError:  # the base of KeyDeletedError too
                return None
            return Entry(found.value or b"", found.revision or 0)

        entry: Entry | None = await self._run(read)
        return entry

    async def put(self, key: str, value: bytes) -> int:
        """See KeyValue."""
        return int(await self._run(lambda bucket: bucket.put(key, value)))

    async def create(self, key: str, value: bytes) -> int | None:
        """See KeyValue."""
        return await self._write(lambda bucket: bucket.create(key, value))

    async def update(self, key: str, value: bytes, revision: int) -> int | None:
        """See KeyValue."""
        return await self._write(lambda bucket: bucket.update(key, value, last=revision))

    async def delete(self, key: str) -> None:
        """See KeyValue."""
        await self._run(lambda bucket: bucket.delete(key))

    async def keys(self) -> list[str]:
        """See KeyValue."""

        async def read(bucket: NatsBucket) -> list[str]:
            try:
                return sorted(await bucket.keys())
            except nats.js.errors.NoKeysError:
                return []

        keys: list[str] = await self._run(read)
        return keys

    async def _write(self, operation: Callable[[NatsBucket], Any]) -> int | None:
        async def write(bucket: NatsBucket) -> int | None:
            try:
                return int(await operation(bucket))
            except nats.js.errors.KeyWrongLastSequenceError:
                return None

        revision: int | None = await self._run(write)
        return revision

    async def _run(self, operation: Callable[[NatsBucket], Any]) -> Any:
        bucket = await self.open()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                try:
                    return await operation(bucket)
                except nats.js.errors.NoStreamResponseError:
                    # The server restarted without its memory, and nothing was written.
                    self._bucket = None
                    return await operation(await self.open())
        except (nats.errors.Error, TimeoutError) as error:
            # A restarted server has no bucket any more: the next use creates it again.
            self._bucket = None
            raise _unavailable(error) from None


def _unavailable(error: BaseException) -> Fault:
    # JetStream's own reason, where it has one: "insufficient memory resources available".
    reason = getattr(error, "description", None) or type(error).__name__
    return Fault(ErrorCode.UNAVAILABLE, f"The key-value store is unreachable ({reason}).")

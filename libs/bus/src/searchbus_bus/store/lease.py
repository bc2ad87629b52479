"""A lease: an entry of the key-value store that one holder has, until it expires or is released."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from searchbus_contracts import ErrorCode, Fault

from ..tasks import end_task, wait_for_event
from .keyvalue import Entry, KeyValue

log = logging.getLogger("searchbus.bus")

_TRIES = 5


class Lease:
    """One key that this holder has, or wants to have. Entries expire with the bucket's `ttl_s`.

    Every write names the revision before it: a holder that was stopped for so long that another one
    took over writes nothing.

    Args:
        value: what is written; it may be replaced between two writes.
        is_mine: whether a value was written by this holder; by default, whether it equals `value`.
        revision: revision of the entry, where this holder has written it already, or takes it over.

    Attributes:
        emptied: whether the last write found no entry, as after a restart of NATS.
    """

    def __init__(
        self,
        store: KeyValue,
        key: str,
        value: bytes,
        *,
        is_mine: Callable[[bytes], bool] | None = None,
        revision: int | None = None,
    ) -> None:
        self.key = key
        self.value = value
        self.emptied = False
        self._store = store
        self._is_mine = is_mine or (lambda found: found == self.value)
        self._revision = revision

    async def write(self, *, create: bool = True) -> Entry | None:
        """Write the entry, first or again: one request where nothing happened since the last time.

        Returns the entry of another holder; None where this one has it now, or it has expired and
        must not be made again (`create`). Raises Fault where the store is unreachable.
        """
        self.emptied = False
        for _ in range(_TRIES):
            # Unknown until the reply is here: the store may have written it all the same.
            revision, self._revision = self._revision, None
            if revision is not None:
                self._revision = await self._store.update(self.key, self.value, revision)
            else:
                entry = await self._store.get(self.key)
                if entry is not None and not self._is_mine(entry.value):
                    return entry
                self.emptied = entry is None
                if entry is not None:
                    self._revision = entry.revision
                    continue
                if not create:
                    return None
                self._revision = await self._store.create(self.key, self.value)
            if self._revision is not None:
                return None
        raise Fault(ErrorCode.UNAVAILABLE, "The entry changes all the time. Try again.")

    async def release(self) -> None:
        """Delete the entry, unless another holder has it; without the store it expires."""
        try:
            if self._revision is None:
                entry = await self._store.get(self.key)
                if entry is None or not self._is_mine(entry.value):
                    return
                self._revision = entry.revision
            await self._store.delete(self.key, self._revision)
        except Fault as fault:
            log.info("a lease was not released and expires: %s", fault.failure.message)

    @asynccontextmanager
    async def kept(self, every_s: float) -> AsyncIterator[None]:
        """Write the entry again and again until the end of the block."""
        ended = asyncio.Event()

        async def keep() -> None:
            while not await wait_for_event(ended, every_s):
                try:
                    await self.write(create=False)
                except Fault as fault:
                    log.debug("a lease was not written: %s", fault.failure.message)

        task = asyncio.get_running_loop().create_task(keep())
        try:
            yield
        finally:
            ended.set()
            await end_task(task)

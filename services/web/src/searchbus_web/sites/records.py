"""What is left to do of a crawl, in the key-value store, where another worker finds it.

A record belongs to one caller, collection, start, depth and patterns. The worker that crawls writes
it every two seconds; where it stops doing so, the next call with the same arguments goes on from
there. A crawl that came to its end leaves a record without addresses: it says that every link of
the stored pages was followed, so that the next crawl may ask only whether pages have changed.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import zlib

import msgspec

from searchbus_bus import KeyValue
from searchbus_bus.store.lease import Lease
from searchbus_contracts import ErrorCode, Fault, encode

log = logging.getLogger("searchbus.web")

BUCKET, BUCKET_TTL_S, BUCKET_BYTES = "web_crawls", 30 * 86_400.0, 64 * 2**20
BEAT_S = 2.0
STOPPED_S = 3 * BEAT_S
"""A record that nobody has written for so long is taken over."""
MAX_WAITING_BYTES = 256 * 1024
"""The most of all addresses that wait: the record stays below the store's limit."""
MAX_SEEN = 20_000
HASH_BYTES = 8


class CrawlRecord(msgspec.Struct, array_like=True):
    """What is left of a crawl.

    Args:
        runner: the call that works on it; empty: none.
        open: whether the last call was interrupted, so that the next one goes on without a cursor.
        waiting: addresses and their depths, in order.
        seen: hashes of all addresses that were ever waiting, 8 bytes each.
        conditional: whether the call asks only whether known pages have changed.
        dropped: whether links were not followed because there were too many.
        counts: outcome → pages, of the call that is open.
    """

    runner: str = ""
    open: bool = False
    waiting: list[tuple[str, int]] = []
    seen: bytes = b""
    conditional: bool = False
    dropped: bool = False
    counts: dict[str, int] = {}

    @property
    def complete(self) -> bool:
        """Whether the crawl followed every link that it should."""
        return not self.waiting and not self.dropped and not self.open


def record_key(*parts: object) -> str:
    """The key of a record, which is its cursor too."""
    return hashlib.sha256(encode(parts)).hexdigest()[:40]


def address_hash(key: str) -> bytes:
    """What `CrawlRecord.seen` has of an address."""
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()[:HASH_BYTES]


async def take_record(store: KeyValue, key: str) -> tuple[CrawlRecord | None, RecordKeeper]:
    """The record of a crawl, once no other call works on it, and who keeps it from now on; raises
    Fault(overloaded). While the store is away, crawls go on and are not kept."""
    runner = secrets.token_hex(8)
    revision: int | None = None
    found: CrawlRecord | None = None
    loop = asyncio.get_running_loop()
    end_s = loop.time() + STOPPED_S
    try:
        while (entry := await store.get(key)) is not None:
            found = _unpacked(entry.value)
            if found is None or not found.runner or loop.time() > end_s:
                break
            if revision is not None and entry.revision != revision:
                raise _running()
            revision = entry.revision
            await asyncio.sleep(BEAT_S / 4)
        revision = entry.revision if entry is not None else None
    except Fault as fault:
        if fault.code != ErrorCode.UNAVAILABLE:
            raise
        log.warning("a crawl is not kept: %s", fault.failure.message)
        found, revision = None, None
    mine = runner.encode()
    lease = Lease(store, key, mine, is_mine=lambda value: value.startswith(mine), revision=revision)
    return found, RecordKeeper(lease, runner)


def _running() -> Fault:
    message = "This crawl is running already. Wait until it has ended."
    return Fault(ErrorCode.OVERLOADED, message, retry_after_ms=30_000)


class RecordKeeper:
    """Writes the record of one call.

    Attributes:
        kept: whether the last write succeeded.
        lost: whether another call has taken the crawl over.
    """

    def __init__(self, lease: Lease, runner: str) -> None:
        self._lease = lease
        self._runner = runner
        self.kept = False
        self.lost = False

    async def write(self, record: CrawlRecord, *, ended: bool = False) -> None:
        """Write the record; see `kept` and `lost`."""
        if self.lost:
            return
        record.runner = "" if ended else self._runner
        packed = zlib.compress(msgspec.msgpack.encode(record), 1)
        self._lease.value = self._runner.encode() + packed
        try:
            self.lost = await self._lease.write() is not None
            self.kept = not self.lost
        except Fault as fault:
            self.kept = False
            log.warning("a crawl is not kept: %s", fault.failure.message)


def _unpacked(value: bytes) -> CrawlRecord | None:
    """None for a record of another release."""
    try:
        return msgspec.msgpack.decode(zlib.decompress(value[16:]), type=CrawlRecord)
    except (zlib.error, msgspec.MsgspecError):
        return None

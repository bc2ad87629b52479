"""A file that is the same for all replicas of a service: its entries are in a bucket.

Whoever changes the file (a command in this container, the service itself) goes on as if it were the
only one. Once a second its changes are sent to the bucket, and those of the others are written into
it, entry by entry: where two replicas change the same entry, the first one in the bucket counts.

At the start the bucket counts alone: a file that a restarted container still has may hold what was
revoked since. Only an empty bucket is filled from the file, also after the store was lost.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from searchbus_bus import end_task
from searchbus_bus.store.keyvalue import Entry, KeyValue, write_over
from searchbus_contracts import ErrorCode, Fault, decode, encode

from .files import file_stamp, locked, write_atomically

log = logging.getLogger("searchbus.shared")
_EVERY_S = 1.0
_PART_BYTES = 400 * 1024
MAX_BUCKET_BYTES = 64 * 1024 * 1024
Entries = dict[str, Any]


class _Head(Struct, frozen=True):
    """What the bucket has under the file's name: where the content is, compressed, in parts."""

    parts: tuple[str, ...]
    sha256: str


class SharedFile:
    """One file, shared by a bucket whose entries last: JSON, split into independent entries."""

    def __init__(
        self,
        path: Path,
        store: KeyValue,
        name: str,
        *,
        split: Callable[[Any], Entries],
        join: Callable[[Entries], Any],
    ) -> None:
        self._path = path
        self._store = store
        self._name = name
        self._split = split
        self._join = join
        self.reached = False
        """Whether file and bucket said the same at the last look."""
        self._base: Entries | None = None
        """What file and bucket both had last."""
        self._seen: tuple[object, int] | None = None
        self._fault = ""
        self._task: asyncio.Task[None] | None = None

    @property
    def known(self) -> bool:
        """Whether the file has, or had once, what the others decided."""
        return self._base is not None

    async def start(self) -> None:
        """Read what the others decided, and follow it; without the store, once it answers."""
        await self.look()
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def close(self) -> None:
        """Follow no more."""
        await end_task(self._task)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Bring file and bucket together, if one of them changed; a failure is logged once."""
        try:
            while not await self._brought_together():
                log.debug("another replica changed %s just before", self._path)
        except (Fault, OSError, ValueError) as error:
            self.reached = False
            if str(error) != self._fault:
                self._fault = str(error)
                log.error("%s is not shared with the other replicas: %s", self._path, error)
            return
        if self._fault:
            log.info("%s is shared with the other replicas again", self._path)
        self.reached, self._fault = True, ""

    async def _brought_together(self) -> bool:
        """One attempt; False where another replica was faster. Raises Fault for the store, OSError
        or ValueError for what cannot be used."""
        head = await self._store.get(self._name)
        seen = file_stamp(self._path), head.revision if head is not None else 0
        if seen == self._seen:
            return True
        theirs = await self._content(head) if head is not None else None
        ours = await asyncio.to_thread(self._read)
        wanted = ours if theirs is None else _merged(self._base, ours, theirs)
        revision = seen[1]
        if wanted != (theirs or {}):
            written = await self._publish(wanted, head)
            if written is None:
                return False
            revision = written
        base = ours if self._base is None else self._base
        stamp = await asyncio.to_thread(self._write, wanted, base)
        self._base, self._seen = wanted, (stamp, revision)
        return True

    def _read(self) -> Entries:
        try:
            return self._entries(self._path.read_bytes(), "it is damaged; put it back from a copy")
        except FileNotFoundError:
            return {}

    def _entries(self, content: bytes, fault: str) -> Entries:
        try:
            return self._split(json.loads(content))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise ValueError(fault) from None

    def _write(self, wanted: Entries, base: Entries) -> object:
        """Write the file unless it says that already; its stamp, where it says nothing else."""
        with locked(self._path):
            # It may have changed since it was read: that is sent the next time.
            now = self._read()
            final = _merged(base, now, wanted)
            if final != now:
                content = json.dumps(self._join(final), indent=1)
                write_atomically(self._path, content, mode=0o600)
            return file_stamp(self._path) if final == wanted else object()

    async def _content(self, head: Entry) -> Entries:
        found = decode(head.value, _Head)
        parts = [await self._store.get(part) for part in found.parts]
        packed = b"".join(part.value for part in parts if part is not None)
        if hashlib.sha256(packed).hexdigest() != found.sha256:
            raise Fault(ErrorCode.UNAVAILABLE, "It is being replaced. Try again in a second.")
        fault = "what the store has of it is damaged"
        return await asyncio.to_thread(lambda: self._entries(zlib.decompress(packed), fault))

    async def _publish(self, wanted: Entries, head: Entry | None) -> int | None:
        """Put the content into the bucket, if that still has this head; the head's revision."""
        packed = await asyncio.to_thread(
            lambda: zlib.compress(json.dumps(self._join(wanted)).encode())
        )
        parts = {}
        for start in range(0, len(packed), _PART_BYTES):
            parts[f"{self._name}.{secrets.token_hex(8)}"] = packed[start : start + _PART_BYTES]
        for part, value in parts.items():
            await self._store.put(part, value)
        found = encode(_Head(tuple(parts), hashlib.sha256(packed).hexdigest()))
        revision = await write_over(self._store, self._name, found, head)
        # The parts of a head that is not in the bucket are nobody's.
        old = decode(head.value, _Head).parts if head is not None else ()
        for part in parts if revision is None else old:
            await self._store.delete(part)
        return revision


def _merged(base: Entries | None, ours: Entries, theirs: Entries) -> Entries:
    """Theirs, with what we changed since `base` and they did not; without a base only theirs."""
    found = dict(theirs)
    if base is None:
        return found
    for key in {**ours, **base}:
        changed = ours.get(key) != base.get(key)
        if changed and theirs.get(key) == base.get(key):
            if key in ours:
                found[key] = ours[key]
            else:
                del found[key]
    return found

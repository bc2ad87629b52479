"""A bucket of the key-value store in NATS JetStream: in memory, or on disk where entries last."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, Header, StorageType, StreamConfig
from nats.js.kv import KV_DEL, KV_OP, KV_PURGE
from nats.js.kv import KeyValue as NatsBucket

from searchbus_contracts import ErrorCode, Fault

from .. import telemetry
from ..tasks import end_task, wait_for_event, within
from .keyvalue import MAX_VALUE_BYTES, TIMEOUT_S, Entry, OnWrite

T = TypeVar("T")

_OPEN_TIMEOUT_S = 2.0
_LATER_S = 60.0
"""The limit of nats-py for an operation, later than our own, which alone counts a reply that came
while this process stood still."""
_PAUSE_MIN_S, _PAUSE_MAX_S = 0.1, 5.0
"""Between two attempts to open a bucket that is unreachable."""
_REPLICATE_MIN_S, _REPLICATE_MAX_S = 2.0, 300.0
"""Between two attempts to give a bucket its replicas."""
_DELETED_FOR_S = 1
"""How long the mark of a deletion stays; the server allows whole seconds."""
_WRONG_REVISION = (10071, 10164)
"""JetStream's codes for a write that expected another revision."""
_SERVER_ERROR = 500
"""Codes of JetStream from here on: it cannot serve; below, it refuses this one request."""
_GONE = (nats.errors.Error, TimeoutError, OSError)

log = logging.getLogger("searchbus.bus")

REPLICAS = 3
"""In a cluster. Two would be worse than one: both are needed to write."""
_DUPLICATES_S = 120.0
"""NATS's default for recognising repeated messages, which a short-lived bucket must not exceed."""


async def open_bucket(
    client: Client, name: str, *, ttl_s: float | None, max_bytes: int, timeout_s: float,
    on_disk: bool = False,
) -> NatsBucket:  # fmt: skip
    """The bucket; made where there is none, with three replicas where the servers suffice.

    One that exists keeps its limits, so that old and new workers share it in a rolling update.
    `timeout_s` is of each request here; those of the bucket need a limit of their own. Raises
    nats.errors.Error, also while the stream has no leader.
    """
    context = client.jetstream(timeout=timeout_s)
    try:
        info = await context.stream_info(f"KV_{name}")
    except nats.js.errors.NotFoundError:
        await _create(context, name, ttl_s, max_bytes, on_disk)
        info = await context.stream_info(f"KV_{name}")
    direct = bool(info.config.allow_direct)
    own = client.jetstream(timeout=_LATER_S)
    return NatsBucket(name, f"KV_{name}", f"$KV.{name}.", own, direct)


async def replicate(client: Client, name: str, *, timeout_s: float) -> bool:
    """Give a bucket its replicas, if it was made before three servers of a cluster were up; False
    where too few are up now. Raises nats.errors.Error: bucket or store are unreachable."""
    context = client.jetstream(timeout=timeout_s)
    info = await context.stream_info(f"KV_{name}")
    clustered = info.cluster is not None and info.cluster.name
    if not clustered or (info.config.num_replicas or 1) >= REPLICAS:
        return True
    try:
        await context.update_stream(info.config, num_replicas=REPLICAS)
    except nats.js.errors.APIError as error:
        log.info("the bucket %s has no replicas yet: %s", name, error.description)
        return False
    log.info("the bucket %s has %d replicas now", name, REPLICAS)
    return True


async def _create(
    context: JetStreamContext, name: str, ttl_s: float | None, max_bytes: int, on_disk: bool
) -> None:
    lasts = ttl_s is None
    config = StreamConfig(
        name=f"KV_{name}",
        subjects=[f"$KV.{name}.>"],
        storage=StorageType.FILE if lasts or on_disk else StorageType.MEMORY,
        num_replicas=REPLICAS,
        max_age=ttl_s or 0,  # of 0: no limit
        max_bytes=max_bytes,
        max_msg_size=MAX_VALUE_BYTES,
        max_msgs_per_subject=1,
        # A full bucket drops its oldest entry; one whose entries last refuses new ones.
        discard=DiscardPolicy.NEW if lasts else DiscardPolicy.OLD,
        duplicate_window=min(ttl_s or _DUPLICATES_S, _DUPLICATES_S),
        # Reads need no leader.
        allow_direct=True,
        # For the marks of deletions.
        allow_msg_ttl=True,
        allow_rollup_hdrs=True,
        deny_delete=True,
    )
    try:
        await context.add_stream(config)
    except nats.js.errors.APIError:
        # A single server, or too few of a cluster are up. If another worker was quicker, the
        # request is the same, or the next attempt finds the bucket.
        await context.add_stream(config, num_replicas=1)


class NatsKeyValue:
    """One bucket, with the limits of `open_bucket`; `connect` returns the connection, or raises
    Fault(unavailable)."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Client]],
        name: str,
        *,
        timeout_s: float = TIMEOUT_S,
        **limits: Any,
    ) -> None:
        self._connect = connect
        self._name = name
        self._limits = limits
        self._timeout_s = timeout_s
        self._client: Client | None = None
        self._bucket: NatsBucket | None = None
        self._why_not = "it is not open yet"
        self._opening: asyncio.Task[None] | None = None
        self._replicating: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self._closed = False
        self._watchers: list[OnWrite] = []
        self._watching: Any = None

    async def close(self) -> None:
        """Stop what runs in the background; operations fail from now on."""
        self._closed = True
        self._bucket, self._why_not = None, "its connection is closed"
        await end_task(self._opening)
        await end_task(self._replicating)

    async def get(self, key: str) -> Entry | None:
        """See KeyValue."""

        async def read(bucket: NatsBucket) -> Entry | None:
            try:
                found = await bucket.get(key)
            except nats.js.errors.KeyNotFoundError:  # the base of KeyDeletedError too
                return None
            return Entry(found.value or b"", found.revision or 0)

        return await self._run(read)

    async def put(self, key: str, value: bytes) -> int:
        """See KeyValue."""
        return await self._run(lambda bucket: bucket.put(key, value))

    async def create(self, key: str, value: bytes) -> int | None:
        """See KeyValue."""
        return await self._write(lambda bucket: bucket.create(key, value))

    async def update(self, key: str, value: bytes, revision: int) -> int | None:
        """See KeyValue."""
        return await self._write(lambda bucket: bucket.update(key, value, last=revision))

    async def delete(self, key: str, revision: int | None = None) -> None:
        """See KeyValue."""
        headers = {KV_OP: KV_DEL}
        if revision is not None:
            headers[Header.EXPECTED_LAST_SUBJECT_SEQUENCE] = str(revision)

        async def mark(_: NatsBucket) -> None:
            assert self._client is not None
            try:
                # As nats-py marks it, but the mark goes away: it would be listed among the keys.
                await self._client.jetstream(timeout=_LATER_S).publish(
                    f"$KV.{self._name}.{key}", b"", headers=headers, msg_ttl=_DELETED_FOR_S
                )
            except nats.js.errors.APIError as error:
                if error.err_code not in _WRONG_REVISION:
                    raise

        await self._run(mark)

    async def keys(self) -> list[str]:
        """See KeyValue. Asks about the stream: a consumer would stay there for minutes."""

        async def read(_: NatsBucket) -> list[str]:
            assert self._client is not None
            prefix = f"$KV.{self._name}."
            found: set[str] = set()
            offset = 0
            while True:
                question = {"subjects_filter": f"{prefix}>", "offset": offset}
                reply = await self._client.request(
                    f"$JS.API.STREAM.INFO.KV_{self._name}",
                    json.dumps(question).encode(),
                    timeout=_LATER_S,
                )
                page = msgspec.json.decode(reply.data, type=_Page)
                if page.error is not None:
                    raise nats.js.errors.APIError.from_error(page.error)
                found |= {subject.removeprefix(prefix) for subject in page.state.subjects}
                offset += len(page.state.subjects)
                if not page.state.subjects or offset >= page.total:
                    return sorted(found)

        return await self._run(read)

    async def watch(self, on_write: OnWrite) -> None:
        """See KeyValue."""
        self._watchers.append(on_write)
        await self._open_first()
        if self._client is not None:
            await self._subscribe(self._client)

    async def unwatch(self, on_write: OnWrite) -> None:
        """See KeyValue."""
        self._watchers = [other for other in self._watchers if other != on_write]
        watching = self._watching
        if watching is not None and not self._watchers:
            self._watching = None
            with suppress(nats.errors.Error):  # it ended with its connection
                await watching.unsubscribe()

    async def _write(self, operation: Callable[[NatsBucket], Awaitable[int]]) -> int | None:
        async def write(bucket: NatsBucket) -> int | None:
            try:
                return int(await operation(bucket))
            except nats.js.errors.KeyWrongLastSequenceError:
                return None
            except nats.js.errors.KeyNotFoundError:
                # nats-py looks at the entry that is in the way; it went away meanwhile.
                return None

        return await self._run(write)

    async def _run(self, operation: Callable[[NatsBucket], Awaitable[T]]) -> T:
        await self._open_first()
        bucket = self._bucket
        if bucket is None or self._client is None:
            raise self._unavailable()
        try:
            if not self._client.is_connected:
                # nats-py would keep the request, and send a write long after its time.
                raise nats.errors.ConnectionReconnectingError
            return await within(operation(bucket), self._timeout_s)
        except nats.errors.MaxPayloadError as error:  # nothing was sent
            raise self._unavailable(error) from None
        except nats.js.errors.APIError as error:
            # The server answered: the bucket is full, or the value too large.
            if error.code is None or error.code >= _SERVER_ERROR:
                self._lost(bucket, error)
            raise self._unavailable(error) from None
        except _GONE as error:
            self._lost(bucket, error)
            raise self._unavailable(error) from None

    async def _open_first(self) -> None:
        """Start to open the bucket; return after the first attempt, whether or not it succeeded.

        The first operation does it: a server wakes up once a second for each bucket that it has.
        """
        if not self._tried.is_set():
            self._open_in_background()
            await wait_for_event(self._tried, _OPEN_TIMEOUT_S)

    def _lost(self, bucket: NatsBucket, error: BaseException) -> None:
        """Fail at once from now on, until the bucket was opened again."""
        if self._bucket is bucket:
            self._bucket = None
            self._open_in_background()
            log.warning("the bucket %s is unreachable (%s)", self._name, _reason(error))

    def _unavailable(self, error: BaseException | None = None) -> Fault:
        telemetry.count_error("store")
        if error is not None:
            self._why_not = _reason(error)
        return Fault(
            ErrorCode.UNAVAILABLE,
            f"The key-value store is unreachable ({self._why_not}). Try again shortly.",
        )

    def _open_in_background(self) -> None:
        if not self._closed and (self._opening is None or self._opening.done()):
            self._opening = asyncio.get_running_loop().create_task(self._keep_opening())

    async def _keep_opening(self) -> None:
        pause_s = _PAUSE_MIN_S
        while not await self._opened():
            if not self._tried.is_set():
                log.warning("the bucket %s cannot be opened (%s)", self._name, self._why_not)
                self._tried.set()
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)
        if self._tried.is_set():
            log.info("the bucket %s is open again", self._name)
        self._tried.set()

    async def _opened(self) -> bool:
        try:
            async with asyncio.timeout(3 * _OPEN_TIMEOUT_S):
                client = await self._connect()
                bucket = await open_bucket(
                    client, self._name, timeout_s=_OPEN_TIMEOUT_S, **self._limits
                )
                await self._subscribe(client)
        except Fault as fault:
            self._why_not = fault.failure.message
        except _GONE as error:
            self._why_not = _reason(error)
        else:
            self._client, self._bucket = client, bucket
            if self._replicating is None or self._replicating.done():
                self._replicating = asyncio.get_running_loop().create_task(self._replicate(client))
            return True
        return False

    async def _replicate(self, client: Client) -> None:
        pause_s = _REPLICATE_MIN_S
        while True:
            try:
                if await replicate(client, self._name, timeout_s=_OPEN_TIMEOUT_S):
                    return
            except _GONE as error:
                log.debug("the bucket %s was not replicated: %s", self._name, _reason(error))
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311
            pause_s = min(2 * pause_s, _REPLICATE_MAX_S)

    async def _subscribe(self, client: Client) -> None:
        """Receive every write, once, if somebody watches: the messages themselves."""
        if not self._watchers or self._watching is not None:
            return
        prefix = f"$KV.{self._name}."

        async def on_message(message: Msg) -> None:
            deleted = (message.headers or {}).get(KV_OP) in (KV_DEL, KV_PURGE)
            for on_write in self._watchers:
                on_write(message.subject.removeprefix(prefix), None if deleted else message.data)

        self._watching = await client.subscribe(f"{prefix}>", cb=on_message)


class _State(msgspec.Struct, frozen=True):
    subjects: dict[str, int] = {}


class _Page(msgspec.Struct, frozen=True):
    """A reply to STREAM.INFO."""

    state: _State = _State()
    total: int = 0
    error: dict[str, Any] | None = None


def _reason(error: BaseException) -> str:
    # JetStream's own reason, where it has one: "insufficient memory resources available".
    return getattr(error, "description", None) or type(error).__name__

"""The NATS side of the transport, on nats-py and its micro services.

Options that differ from nats-py's defaults, each for a measured reason: reconnect for ever (the
default gives up after 60 attempts), pings every 3 s (a dead server went unnoticed for 4 minutes), a
bounded first connect (a dead port hangs). overrides.py decodes tolerantly, because one message
with invalid UTF-8 would end the connection of every worker that it reaches.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.micro.service import Service, ServiceConfig, ServiceInfo

from searchbus_contracts import ErrorCode, Fault

from .. import telemetry
from ..store.jetstream import NatsKeyValue
from ..tasks import end_task, wait_for_event
from ..tls import CUT, TlsFiles
from ..transport import PENDING_LIMIT, Callback, DirectCallback, Message, ServiceRecord
from .overrides import BusClient
from .sign_in import Seeds

PING_INTERVAL_S = 1
MAX_OUTSTANDING_PINGS = 2
"""A server that hangs is left after two to three seconds: a call with a deadline of five seconds is
then sent once more through another server."""
RECONNECT_WAIT_S = 0.25

log = logging.getLogger("searchbus.bus")

LEAVE_TIMEOUT_S = 5.0


async def _leave(
    client: BusClient, subscriptions: list[Subscription], step: Callable[[], Awaitable[Any]]
) -> None:
    """End subscriptions; without a server, where steps wait for 10 s, the next connection does."""
    client.leaving.update(subscriptions)
    if not client.is_connected:
        return
    try:
        async with asyncio.timeout(LEAVE_TIMEOUT_S):
            await step()
    except (TimeoutError, nats.errors.Error):
        log.debug("the connection was lost before a subscription could be drained")
    else:
        client.leaving.difference_update(subscriptions)


class DescribedService(Service):
    """A micro service whose `$SRV.INFO` lists endpoints that the bus itself subscribes to."""

    def __init__(self, client: Client, record: ServiceRecord) -> None:
        super().__init__(
            client,
            ServiceConfig(
                name=record.name,
                version=record.version,
                description=record.description,
                metadata=record.metadata,
            ),
        )
        self._record = record

    @property
    def subscriptions(self) -> list[Subscription]:
        """Those to `$SRV.*`."""
        return list(self._subscriptions.values())

    def info(self) -> ServiceInfo:
        """What `$SRV.INFO` replies."""
        return ServiceInfo.from_dict(
            {**super().info().to_dict(), "endpoints": self._record.endpoints}
        )


class NatsAnnouncement:
    """A worker's entry in discovery; see Announcement."""

    def __init__(self, client: BusClient, service: DescribedService) -> None:
        self._client = client
        self._service = service
        self.instance: str = service.id

    async def withdraw(self) -> None:
        """Stop replying to discovery."""
        await _leave(self._client, self._service.subscriptions, self._service.stop)


class NatsSubscription:
    """A subscription to one subject; see Subscription."""

    def __init__(self, client: BusClient, subscription: Subscription) -> None:
        self._client = client
        self.subscription = subscription

    async def drain(self) -> None:
        """Stop delivery, after what was received."""
        await _leave(self._client, [self.subscription], self.subscription.drain)

    async def unsubscribe(self) -> None:
        """Stop delivery at once."""
        await _leave(self._client, [self.subscription], self.subscription.unsubscribe)


class NatsTransport:
    """One connection to a NATS server or cluster. Make it with `NatsTransport.connect`."""

    def __init__(self, seeds: Seeds | None = None, tls_files: TlsFiles | None = None) -> None:
        self._client = BusClient(seeds, tls_files)
        self._seeds = seeds
        self._store_seeds: Seeds | None = None
        self._tls_files = tls_files
        self._tls_fault = self._where = ""
        self._find_url: Callable[[], str | None] | None = None
        self._listeners: list[Callable[[], None]] = []
        self._up = asyncio.Event()
        self._lost_at_s = 0.0
        self._failed_attempts = self.async_errors = 0
        """Errors that the server reported outside any call: refused publishes, slow consumers."""
        self._connect_store: Callable[[], Awaitable[NatsTransport]] | None = None
        self._store: NatsTransport | None = None
        self._opening_store = asyncio.Lock()
        self._buckets: list[NatsKeyValue] = []

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        name: str,
        inbox_prefix: str = "_INBOX",
        connect_timeout_s: float = 5.0,
        find_url: Callable[[], str | None] | None = None,
        seeds: Seeds | None = None,
        store_seeds: Seeds | None = None,
        tls_files: TlsFiles | None = None,
        **options: Any,
    ) -> NatsTransport:
        """Connect to one URL or several separated by commas.

        Args:
            connect_timeout_s: for the whole first connect; afterwards it reconnects for ever.
            find_url: asked before each attempt to reconnect, for a server that may come back at
                another address; `None` keeps the last one.
            seeds: of its user, where the server demands one.
            store_seeds: of the user for `key_value`, where buckets are in another account; `None`
                uses this connection.
            tls_files: of TLS, where the server speaks it.
            options: further options of nats-py.

        Raises:
            Fault: unavailable, when no server answers in time, or none accepts the key or has a
                certificate that can be trusted.
        """
        self = cls(seeds, tls_files)
        self._find_url = find_url
        self._where = ",".join(part.rpartition("@")[2] for part in url.split(","))
        if store_seeds is not None:
            self._store_seeds = store_seeds
            self._connect_store = partial(
                cls.connect, url, name=f"{name}-store", inbox_prefix=inbox_prefix,
                connect_timeout_s=connect_timeout_s, find_url=find_url, seeds=store_seeds,
                tls_files=tls_files, **options,
            )  # fmt: skip
        # In a task of its own: nats-py may lose the one cancellation of a timeout, and never ends.
        connecting = asyncio.get_running_loop().create_task(
            self._client.connect(
                servers=url.split(","),
                name=name,
                inbox_prefix=inbox_prefix,
                connect_timeout=2,
                reconnect_time_wait=RECONNECT_WAIT_S,  # type: ignore[arg-type]
                max_reconnect_attempts=-1,
                ping_interval=PING_INTERVAL_S,
                max_outstanding_pings=MAX_OUTSTANDING_PINGS,
                error_cb=self._on_error,
                disconnected_cb=self._on_disconnected,
                reconnected_cb=self._on_reconnected,
                **options,
            )
        )
        try:
            done, _ = await asyncio.wait([connecting], timeout=connect_timeout_s)
        finally:
            await end_task(connecting)
        error = connecting.exception() if done else TimeoutError()
        if isinstance(error, TimeoutError | OSError | nats.errors.Error):
            await self.close()
            raise Fault(
                ErrorCode.UNAVAILABLE,
                self.fault
                or f"No NATS server answers at {self._where}. Start one or set "
                "SEARCHBUS_NATS_URL, then try again.",
            ) from None
        if error is not None:
            raise error
        self._up.set()
        telemetry.start()
        return self

    @property
    def connected(self) -> bool:
        """Whether messages flow right now."""
        return bool(self._client.is_connected)

    @property
    def away_s(self) -> float:
        """See Transport; 0 too until nats-py has reported the loss."""
        return 0.0 if self._up.is_set() else time.monotonic() - self._lost_at_s

    @property
    def tried_all(self) -> bool:
        """See Transport."""
        return self._failed_attempts >= len(self._client._server_pool)

    @property
    def fault(self) -> str:
        """Why no server lets this connection, or that of the buckets, in: a line for people."""
        found = (seeds.fault for seeds in (self._seeds, self._store_seeds) if seeds is not None)
        return self._tls_fault or next(filter(None, found), "")

    @property
    def max_payload_bytes(self) -> int:
        """The server's limit for one message."""
        return int(self._client.max_payload)

    def new_inbox(self) -> str:
        """A fresh reply subject under this connection's inbox prefix."""
        return str(self._client.new_inbox())

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """Call back whenever the connection is lost."""
        self._listeners.append(callback)

    async def wait_connected(self, timeout_s: float) -> bool:
        """Wait until connected; False where that takes longer than `timeout_s`."""
        return self._up.is_set() or await wait_for_event(self._up, timeout_s)

    async def publish(
        self, subject: str, data: bytes, *, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Send one message; raises Fault(unavailable) when it cannot be sent."""
        try:
            await self._client.publish(subject, data, reply=reply, headers=headers)
        except nats.errors.Error as error:
            log.warning("a message to %s was not sent: %s", subject, type(error).__name__)
            raise Fault(
                ErrorCode.UNAVAILABLE, "The message bus is not reachable. Try again shortly."
            ) from None

    async def subscribe(
        self, subject: str, callback: Callback, *, queue: str = ""
    ) -> NatsSubscription:
        """Deliver messages of a subject to the callback, in a queue group where one is given."""

        async def deliver(msg: Msg) -> None:
            headers = msg.headers or {}
            await callback(Message(msg.subject, msg.data, msg.reply, headers))

        return NatsSubscription(
            self._client,
            await self._client.subscribe(
                subject,
                queue=queue,
                cb=deliver,
                pending_msgs_limit=PENDING_LIMIT,
                pending_bytes_limit=256 * 1024 * 1024,
            ),
        )

    async def subscribe_directly(
        self, subject: str, callback: DirectCallback, *, queue: str = ""
    ) -> NatsSubscription:
        """See Transport."""

        async def deliver(message: Message) -> None:
            callback(message)

        # What comes before the next line goes through the queue.
        found = await self.subscribe(subject, deliver, queue=queue)
        self._client.deliver_directly(found.subscription, callback)
        return found

    async def announce(self, record: ServiceRecord) -> NatsAnnouncement:
        """Reply to `$SRV.*` for a worker, by nats.micro."""
        service = DescribedService(self._client, record)
        await service.start()
        return NatsAnnouncement(self._client, service)

    async def key_value(self, bucket: str, *, ttl_s: float | None, **limits: Any) -> NatsKeyValue:
        """See Transport."""
        found = NatsKeyValue(self._store_client, bucket, ttl_s=ttl_s, **limits)
        self._buckets.append(found)
        return found

    async def _store_client(self) -> Client:
        """The connection of the buckets; raises Fault(unavailable) where it cannot be opened."""
        if self._connect_store is None:
            if self._seeds is not None:
                raise Fault(ErrorCode.UNAVAILABLE, "there is no key for this service's buckets")
            return self._client
        async with self._opening_store:
            if self._store is None:
                self._store = await self._connect_store()
        return self._store._client

    async def replies_arrived(self, window_s: float, complete: asyncio.Event) -> None:
        """Wait for the whole window, unless somebody knows how many will reply."""
        await wait_for_event(complete, window_s)

    async def flush(self, timeout_s: float = 2.0) -> None:
        """Return when the server has received everything sent so far, or after `timeout_s`."""
        if not self._client.is_connected:
            return
        try:
            await self._client.flush(timeout=max(1, round(timeout_s)))
        except (nats.errors.Error, TimeoutError):
            log.debug("flush ended early")

    async def close(self) -> None:
        """Close the connection, and that of the buckets."""
        for bucket in self._buckets:
            await bucket.close()
        if self._store is not None:
            await self._store.close()
        self._up.clear()
        try:
            async with asyncio.timeout(5):
                await self._client.close()
        except (TimeoutError, nats.errors.Error, OSError):
            log.debug("the connection was not closed in time and is dropped")

    async def _on_disconnected(self) -> None:
        was_up, self._lost_at_s = self._up.is_set(), time.monotonic()
        self._up.clear()
        if self._client.is_closed:
            if was_up:  # not by us: nats-py does not come back from most errors
                log.error("NATS closed the connection for good: %s", self._client.last_error)
            return
        log.warning("lost the connection to NATS; reconnecting")
        self._failed_attempts = 0
        for listener in self._listeners:
            listener()
        self._find_server()

    def _find_server(self) -> None:
        url = self._find_url() if self._find_url is not None else None
        if url is not None:
            self._client.set_server_pool(url.split(","))

    async def _on_reconnected(self) -> None:
        log.info("connected to NATS again")
        self._tls_fault, self._failed_attempts = "", 0
        telemetry.count_reconnect()
        self._up.set()

    async def _on_error(self, error: Exception) -> None:
        # Reconnect attempts report here too, several a second: they are not counted.
        if not self._client.is_connected:
            self._failed_attempts += 1
            self._note_tls(error)
            if self._client.is_reconnecting:
                self._find_server()
            return
        self.async_errors += 1
        telemetry.count_error(_kind_of(error))
        log.error("NATS reported %s: %s", type(error).__name__, error)

    def _note_tls(self, error: Exception) -> None:
        files = self._tls_files or TlsFiles("NATS")
        # A handshake that failed, or files that cannot be used.
        fault = files.explain(self._where, error, demanded=self._client.demands_certificate)
        fault = fault or (str(error) if isinstance(error, ValueError) else "")
        if fault and fault != self._tls_fault:
            log.error("%s", fault)
        # A server that refuses a certificate may cut the connection before its reason is read.
        if fault or not isinstance(error, CUT):
            self._tls_fault = fault


def _kind_of(error: Exception) -> str:
    if isinstance(error, nats.errors.SlowConsumerError):
        return "slow_consumer"
    return "permission" if "permissions violation" in str(error).lower() else "other"

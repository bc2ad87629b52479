"""A connection to the bus: request, gather, serve, publish, subscribe, discover."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from searchbus_contracts import (
    DEFAULT_PREFIX,
    Actor,
    ErrorCode,
    Fault,
    Pong,
    Subjects,
    decode,
    encode,
)

from .client.discovery import WorkerInfo, discover
from .client.fanout import Gathered, Hedge, gather
from .client.request import InstanceGoneError, OnEvent, Request
from .client.requester import RECONNECT_GRACE_S, Requester
from .identity import ActorSigner, ActorVerifier
from .store.keyvalue import TIMEOUT_S, KeyValue
from .transport import Message, Subscription, Transport
from .worker.serving import Serving
from .worker.worker import Worker

log = logging.getLogger("searchbus.bus")
T = TypeVar("T")


class Bus:
    """A connection to the message bus. Make one with `connect` or `MemoryBroker().connect`.

    Args:
        signer: signs the actor of every request; only the edge has one.
        verifier: refuses requests whose actor is not signed by an edge.
        reconnect_grace_s: how long requests wait for a lost connection; see requester.py.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        name: str = "searchbus",
        prefix: str = DEFAULT_PREFIX,
        signer: ActorSigner | None = None,
        verifier: ActorVerifier | None = None,
        reconnect_grace_s: float = RECONNECT_GRACE_S,
    ) -> None:
        self.name = name
        self.subjects = Subjects(prefix)
        self.transport = transport
        self._requester = Requester(
            transport, self.subjects, signer, reconnect_grace_s=reconnect_grace_s
        )
        self.fleet = self._requester.fleet
        """What this connection noticed of the instances that it sends requests to."""
        self.transit = self._requester.inbox.budget
        """The limits of large replies that are received at the same time; see `Transit`."""
        self._verifier = verifier
        self._absence: Callable[[str], object | None] = lambda service: None

    @property
    def connected(self) -> bool:
        """Whether the connection to the broker is up."""
        return self.transport.connected

    @property
    def away_s(self) -> float:
        """For how long the connection has been lost, in seconds; 0 while it is up."""
        return self.transport.away_s

    @property
    def fault(self) -> str:
        """Why no server lets this process in, e.g. a refused key: a line that says what to do."""
        return self.transport.fault

    @property
    def in_flight(self) -> int:
        """How many sent requests wait for a reply."""
        return self._requester.inbox.in_flight

    def request(
        self,
        subject: str,
        message: Any,
        reply_type: type[T],
        *,
        service: str,
        timeout_s: float,
        actor: Actor | None = None,
        on_event: OnEvent | None = None,
        idempotent: bool = True,
    ) -> Coroutine[Any, Any, T]:
        """Send a message and return the decoded reply: `send`, with the fields of `Request`."""
        return self.send(
            Request(
                subject,
                message,
                reply_type,
                service=service,
                timeout_s=timeout_s,
                actor=actor,
                on_event=on_event,
                idempotent=idempotent,
            )
        )

    async def send(self, request: Request[T]) -> T:
        """Send a request and return its reply; a cancel cancels the work at the service.

        Raises:
            InstanceGoneError: the instance that alone can do the request has left.
            Fault: the failure that the service replied with, or deadline_exceeded, unavailable,
                internal.
        """
        try:
            body = await self._requester.send(request)
        except InstanceGoneError:
            raise
        except Fault as fault:
            raise self._explained(fault, request.service) from None
        try:
            return decode(body, request.reply_type)
        except Fault as fault:
            log.warning("the reply of %s does not fit its type: %s", request.service, fault)
            raise Fault(
                ErrorCode.INTERNAL,
                f"The {request.service} service's answer could not be understood. "
                "Report it to the operator.",
            ) from None

    def explain_absences(self, absence: Callable[[str], object | None]) -> None:
        """Let `unavailable` failures say since when a service is away; None for any other."""
        self._absence = absence

    def _explained(self, fault: Fault, service: str) -> Fault:
        # One that must not be repeated says so.
        is_away = fault.code == ErrorCode.UNAVAILABLE and fault.failure.retryable
        if not is_away or not self.connected:
            return fault
        absence = self._absence(service)
        if absence is None:
            return fault
        return Fault(ErrorCode.UNAVAILABLE, f"{absence} Try again later, or go on without it.")

    async def send_hedged(self, request: Request[T], hedge: Hedge) -> T:
        """Send a read, and to another instance too where the first is slow; raises as `send`."""
        first = self.fleet.pick(request.service)

        async def again() -> T:
            second = self.fleet.pick(request.service, avoid={first} if first else ())
            reply = await self.send(msgspec.structs.replace(request, instance=second))
            if first is not None and second is not None:
                self.fleet.strike(request.service, first)
            return reply

        return await hedge.run(
            lambda: self.send(msgspec.structs.replace(request, instance=first)), again
        )

    async def gather(self, requests: Mapping[str, Request[Any]], *, timeout_s: float) -> Gathered:
        """Send several requests at once, none for longer than `timeout_s`; see `fanout`."""

        def sending(request: Request[Any]) -> Callable[[], Awaitable[Any]]:
            budget_s = min(request.timeout_s, timeout_s)
            return lambda: self.send(msgspec.structs.replace(request, timeout_s=budget_s))

        return await gather({name: sending(request) for name, request in requests.items()})

    async def publish(self, subject: str, message: Any) -> None:
        """Send an event; raises Fault(unavailable) while there is no connection."""
        await self.transport.publish(subject, encode(message))

    async def subscribe(
        self, subject: str, handler: Callable[[str, bytes], Awaitable[None]]
    ) -> Subscription:
        """Call the handler with subject and body of every event; its exceptions are logged only."""

        async def on_message(message: Message) -> None:
            try:
                await handler(message.subject, message.data)
            except Exception:
                log.exception("the handler of %s failed", subject)

        return await self.transport.subscribe(subject, on_message)

    async def serve(self, worker: Worker) -> Serving:
        """Serve a worker until `Serving.drain`."""
        serving = Serving(worker, self.transport, self._requester, self.subjects, self._verifier)
        await serving.start()
        return serving

    async def key_value(
        self, name: str, *, ttl_s: float | None, max_bytes: int, timeout_s: float = TIMEOUT_S,
        on_disk: bool = False,
    ) -> KeyValue:  # fmt: skip
        """A bucket that all connections with this prefix share; see keyvalue.py.

        While the store is unreachable, also where the server has no JetStream, the operations of
        the bucket fail, and not this.

        Args:
            ttl_s: how long an entry lives after it was written; `None`: until it is deleted, on
                the servers' disks, and a full bucket refuses new entries.
            max_bytes: limit of all entries together.
            timeout_s: limit of each operation.
            on_disk: entries that expire are on the servers' disks, too.
        """
        bucket = f"{self.subjects.prefix}_{name}"
        return await self.transport.key_value(
            bucket, ttl_s=ttl_s, max_bytes=max_bytes, timeout_s=timeout_s, on_disk=on_disk
        )

    async def workers(
        self,
        *,
        quiet_s: float = 0.3,
        patience_s: float = 0.0,
        most_s: float = 5.0,
        known: Mapping[str, int] = MappingProxyType({}),
    ) -> list[WorkerInfo]:
        """Every searchbus worker that replied to discovery, see `Inbox.collect`; those of `known`
        services (with their number) are asked in any case. A service whose workers do not reply is
        waited for up to `patience_s`; one without workers is not. Raises Fault(unavailable) without
        a connection."""
        return await discover(
            self._requester.inbox,
            quiet_s=quiet_s,
            patience_s=patience_s,
            most_s=most_s,
            known=known,
        )

    async def ping(self, service: str, instance: str, timeout_s: float) -> bool:
        """Whether an instance answers a ping, which is outside its limit: a busy one does."""
        try:
            return await self._requester.answers(service, instance, timeout_s)
        except ValueError:  # an id that no subject can have
            return False

    async def live(self, service: str, instance: str, timeout_s: float) -> Pong | None:
        """What an instance says of its load and the parts of its process; None without a reply.
        Raises Fault where it cannot be read."""
        try:
            return await self._requester.live(service, instance, timeout_s)
        except ValueError:  # an id that no subject can have
            return None

    def end_requests(self) -> None:
        """Let all requests fail as `unavailable`, those that wait and later ones, so that their
        callers get an answer before the process stops."""
        self._requester.inbox.stop()

    async def close(self) -> None:
        """Flush and close the connection; drain what is served first."""
        await self.fleet.close()
        await self.transport.flush()
        await self.transport.close()


async def connect(
    url: str,
    *,
    name: str,
    prefix: str = DEFAULT_PREFIX,
    signer: ActorSigner | None = None,
    verifier: ActorVerifier | None = None,
    reconnect_grace_s: float = RECONNECT_GRACE_S,
    **options: Any,
) -> Bus:
    """Connect to NATS, at one address or several, separated by commas; raises Fault(unavailable)
    when no server answers in time.

    Args:
        signer, verifier, reconnect_grace_s: see Bus.
        options: see `NatsTransport.connect` (connect_timeout_s, find_url, seeds, tls_files, …).
    """
    # Imported here, because the in-memory broker must load without nats.
    from .nats.transport import NatsTransport

    transport = await NatsTransport.connect(url, name=name, **options)
    return Bus(
        transport,
        name=name,
        prefix=prefix,
        signer=signer,
        verifier=verifier,
        reconnect_grace_s=reconnect_grace_s,
    )

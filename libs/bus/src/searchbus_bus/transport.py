"""What the bus needs from a message broker; NATS and the in-memory broker both provide it.

Everything else (requests, workers, parts, cancel, discovery) is written once, on top of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec import Struct

from searchbus_contracts import Fault

from .store.keyvalue import KeyValue

log = logging.getLogger("searchbus.bus")


class Message(Struct, frozen=True):
    """One message as it was delivered."""

    subject: str
    data: bytes
    reply: str = ""
    headers: Mapping[str, str] = {}

    @property
    def no_responders(self) -> bool:
        """Whether the server replied that the subject of the request has no subscriber."""
        return self.headers.get("Status") == "503" and not self.data


Callback = Callable[[Message], Awaitable[None]]
"""Called for one message at a time per subscription; must be quick and must not raise."""
DirectCallback = Callable[[Message], None]
"""Called while the message is read: must only pass it on, and must not raise."""
PENDING_LIMIT = 65_536
"""Messages of a subscription that wait for its callback; further ones are lost, and counted."""


@dataclass(slots=True)
class ServiceRecord:
    """What `$SRV.INFO` replies for one worker (NATS micro, ADR-32)."""

    name: str
    version: str
    description: str
    metadata: dict[str, str]
    endpoints: list[dict[str, Any]]


class Subscription(Protocol):
    """A subscription to one subject."""

    async def drain(self) -> None:
        """Stop delivery; return when the callback got every message already received."""

    async def unsubscribe(self) -> None:
        """Stop delivery at once."""


class Announcement(Protocol):
    """A worker's entry in discovery."""

    instance: str

    async def withdraw(self) -> None:
        """Stop replying to discovery."""


class Transport(Protocol):
    """A connection to a broker."""

    @property
    def connected(self) -> bool:
        """Whether the connection to the broker is up."""

    @property
    def away_s(self) -> float:
        """For how long the connection has been lost, in seconds; 0 while it is up."""

    @property
    def tried_all(self) -> bool:
        """Whether no broker let this connection in since it was lost, each of them tried."""

    @property
    def max_payload_bytes(self) -> int:
        """Size limit of one message, headers included."""

    @property
    def fault(self) -> str:
        """Why no broker lets this connection in, e.g. a refused key: what to do, in a line."""

    def new_inbox(self) -> str:
        """A new reply subject that only this connection uses."""

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """Call back whenever the connection is lost."""

    async def wait_connected(self, timeout_s: float) -> bool:
        """Wait until connected; False where that takes longer than `timeout_s`."""

    async def publish(
        self, subject: str, data: bytes, *, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Send one message; raises Fault(unavailable) when it cannot be sent."""

    async def subscribe(self, subject: str, callback: Callback, *, queue: str = "") -> Subscription:
        """Deliver messages of a subject (`*` and `>` match) to the callback."""

    async def subscribe_directly(
        self, subject: str, callback: DirectCallback, *, queue: str = ""
    ) -> Subscription:
        """Deliver messages of a subject as they are read, without a queue before the callback."""

    async def announce(self, record: ServiceRecord) -> Announcement:
        """Reply to `$SRV.INFO` for a worker; over NATS to `$SRV.PING` and `$SRV.STATS`, too."""

    async def key_value(self, bucket: str, *, ttl_s: float | None, **limits: Any) -> KeyValue:
        """A shared bucket with the limits of `Bus.key_value`; its operations fail while the store
        is unreachable, not this."""

    async def replies_arrived(self, window_s: float, complete: asyncio.Event) -> None:
        """Wait for the replies of every subscriber: `window_s`, or until `complete` is set."""

    async def flush(self, timeout_s: float = 2.0) -> None:
        """Return when the broker has received everything sent so far, or after `timeout_s`."""

    async def close(self) -> None:
        """Close the connection."""


async def publish_or_log(
    transport: Transport,
    subject: str,
    data: bytes,
    what: str,
    *,
    headers: dict[str, str] | None = None,
    level: int = logging.DEBUG,
) -> None:
    """Send a message that nobody misses; else a log line says `what` it was."""
    try:
        await transport.publish(subject, data, headers=headers)
    except Fault:
        log.log(level, "%s could not be sent", what)

"""What the bus needs of a message broker; NATS and the in-memory twin both provide it.

Everything else (requests, workers, parts, cancel, discovery) is written once, on top of this.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from .keyvalue import KeyValue

__all__ = ["Announcement", "Callback", "Message", "ServiceRecord", "Subscription", "Transport"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it was delivered."""

    subject: str
    data: bytes
    reply: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def no_responders(self) -> bool:
        """Whether this is the server's word that nobody listens to the subject asked."""
        return self.headers.get("Status") == "503" and not self.data


Callback = Callable[[Message], Awaitable[None]]
"""Called for one message at a time per subscription; must be quick and never raise."""


@dataclass(slots=True)
class ServiceRecord:
    """What `$SRV.INFO` tells of one worker (NATS micro, ADR-32)."""

    name: str
    version: str
    description: str
    metadata: dict[str, str]
    endpoints: list[dict[str, Any]]


class Subscription(Protocol):
    """Interest in a subject."""

    async def drain(self) -> None:
        """Take no new messages; return when those already received went to the callback."""

    async def unsubscribe(self) -> None:
        """Drop interest at once."""


class Announcement(Protocol):
    """A worker's presence in discovery."""

    instance: str

    async def withdraw(self) -> None:
        """Answer discovery no longer."""


class Transport(Protocol):
    """A connection to a broker."""

    @property
    def connected(self) -> bool:
        """Whether messages flow right now."""

    @property
    def max_payload_bytes(self) -> int:
        """Size limit of one message, headers included."""

    @property
    def async_errors(self) -> int:
        """Errors the broker reported outside any call: refused publishes, slow consumers."""

    def new_inbox(self) -> str:
        """A fresh reply subject of one's own."""

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """Call back whenever the connection is lost."""

    async def wait_connected(self, timeout_s: float) -> bool:
        """Wait until connected; False when `timeout_s` ended first."""

    async def publish(
        self, subject: str, data: bytes, *, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        """Send one message; raises Fault(unavailable) when it cannot be sent."""

    async def subscribe(
        self, subject: str, callback: Callback, *, queue: str = "", pending_limit: int = 65_536
    ) -> Subscription:
        """Deliver messages of a subject (`*` and `>` match) to the callback."""

    async def announce(self, record: ServiceRecord) -> Announcement:
        """Answer `$SRV.PING`, `$SRV.INFO` and `$SRV.STATS` for a worker."""

    async def key_value(self, bucket: str, *, ttl_s: float, max_bytes: int) -> KeyValue:
        """A shared bucket; raises Fault(unavailable) where the broker has none."""

    async def flush(self, timeout_s: float = 2.0) -> None:
        """Return when the broker has everything sent so far, or the time is over."""

    async def close(self) -> None:
        """Close the connection."""

"""The two brokers of the behaviour suite, and a transport that a test controls message by message."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from searchbus_bus import Bus, MemoryBroker, connect
from searchbus_bus.store import jetstream
from searchbus_bus.tasks import within
from searchbus_bus.transport import Callback, DirectCallback, Message
from searchbus_contracts import ErrorCode, Fault

Connect = Callable[..., Awaitable[Bus]]


@pytest.fixture
def lasting_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection is left, and no request sent again, when a busy machine stops the server for
    some seconds."""
    monkeypatch.setattr("searchbus_bus.nats.transport.MAX_OUTSTANDING_PINGS", 60)


@pytest.fixture(params=["memory", "nats"])
async def connect_bus(
    request: pytest.FixtureRequest, lasting_connections: None
) -> AsyncIterator[Connect]:
    """Make connections to one bus that no other test uses."""
    prefix = f"t{secrets.token_hex(4)}"
    buses: list[Bus] = []
    broker = MemoryBroker()

    async def make(name: str = "test", **options: Any) -> Bus:
        if request.param == "memory":
            bus = broker.connect(name=name, prefix=prefix)
        else:
            server = request.getfixturevalue("nats_server")
            bus = await connect(server.url, name=name, prefix=prefix, **options)
        buses.append(bus)
        return bus

    yield make
    for bus in buses:
        await bus.close()


@pytest.fixture
def patient_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buckets wait for a server that is busy, where a test neither stops it nor lets it hang."""
    monkeypatch.setattr(jetstream, "_OPEN_TIMEOUT_S", 60.0)
    monkeypatch.setattr(jetstream, "within", lambda operation, _: within(operation, 60.0))


class FakeTransport:
    """Records what is published; the test decides what comes back."""

    def __init__(self, max_payload_bytes: int = 1024 * 1024) -> None:
        self.connected = True
        self.max_payload_bytes = max_payload_bytes
        self.async_errors = 0
        self.published: list[Message] = []
        self.subscriptions: dict[str, Callback] = {}
        self.direct: dict[str, DirectCallback] = {}
        self.on_publish: Callable[[Message], Any] = lambda message: None
        self._listeners: list[Callable[[], None]] = []

    def new_inbox(self) -> str:
        return "_INBOX.fake"

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        self._listeners.append(callback)

    def lose_connection(self) -> None:
        for listener in self._listeners:
            listener()

    async def replies_arrived(self, window_s: float, complete: asyncio.Event) -> None:
        await asyncio.sleep(window_s)

    async def flush(self, timeout_s: float = 2.0) -> None:
        await asyncio.sleep(0)

    @property
    def away_s(self) -> float:
        return 0.0 if self.connected else math.inf

    @property
    def tried_all(self) -> bool:
        return not self.connected

    async def wait_connected(self, timeout_s: float) -> bool:
        return self.connected

    async def publish(
        self, subject: str, data: bytes, *, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        if not self.connected:
            raise Fault(ErrorCode.UNAVAILABLE, "The message bus is not reachable.")
        message = Message(subject, data, reply, headers or {})
        self.published.append(message)
        outcome = self.on_publish(message)
        if outcome is not None:
            await outcome

    async def subscribe(self, subject: str, callback: Callback, *, queue: str = "") -> Any:
        self.subscriptions[subject] = callback

    async def subscribe_directly(
        self, subject: str, callback: DirectCallback, *, queue: str = ""
    ) -> Any:
        self.direct[subject] = callback

    async def reply(self, to: Message, data: bytes = b"{}", **headers: str) -> None:
        """Deliver a reply to a published request."""
        (inbox,) = self.direct.values()
        inbox(Message(to.reply, data, headers=headers))
        await asyncio.sleep(0)

    def requests(self) -> list[Message]:
        """What was published, without cancellations."""
        return [m for m in self.published if ".ctl.cancel." not in m.subject]

    def cancellations(self) -> list[Message]:
        """Which cancellations were published."""
        return [m for m in self.published if ".ctl.cancel." in m.subject]


@pytest.fixture
def transport() -> FakeTransport:
    """A transport without a broker."""
    return FakeTransport()

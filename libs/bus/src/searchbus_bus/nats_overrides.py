"""What this package overrides in nats-py 2.16, and which upstream change would end each override.

Private methods may change in any release: pyproject.toml pins the minor version, and
tests/test_nats_overrides.py fails when the pinned release no longer needs an override.

| override | reason | ends when nats-py |
| --- | --- | --- |
| `Client._build_message` | decodes subjects as strict UTF-8; the error ends the read loop, and \
the connection receives nothing more | decodes them tolerantly, or drops the message and goes on |
| `Client._process_headers` | the same for the status line and its description; and it looks \
at each character of each name, which takes twice as long for the headers of a request | catches \
decoding errors there too, as it does for the header lines, and reads usual headers at once |
| `Client.publish` (public) | checks and translates each header by itself, in five coroutines one \
inside the other | checks all headers of a message at once, in one |
| `Client._process_msg` | a queue and a task between a reply and the request that waits for it; \
only for subscriptions of `deliver_directly` | has subscriptions with a plain callback |
| `Client._send_ping` | writes the PING at once, before the commands that wait for the flusher: \
its PONG says nothing of an UNSUB among them, and a drain lost requests | sends it behind them |
| `Client._process_pong` | a PONG that comes after its flush gave up is an error, which ends \
the read loop: nothing more is received until a ping is missed | ignores such a PONG |
| `Client._process_connect_init` | what was left while there was no server is subscribed to \
again on the next connection: a worker on standby got requests | can drop it without a connection |
| `Client._close` | writes what is pending to a connection that was lost; the error \
leaves the rest undone | closes without a connection too |
| `Service.info` (public) | lists only endpoints that micro subscribes to; these run one callback \
at a time, and stop() cuts them off instead of draining | can describe an endpoint that it does \
not subscribe to |
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.micro.service import Service, ServiceConfig, ServiceInfo

from .transport import Message, ServiceRecord

__all__ = ["BusClient", "DescribedService"]

log = logging.getLogger("searchbus.bus")
_VERSION = b"NATS/1.0\r\n"


class BusClient(Client):
    """nats-py's client, with less work a message.

    Invalid UTF-8 in a message does not end the connection.
    """

    def __init__(self) -> None:
        super().__init__()
        self._direct: dict[int, Callable[[Message], None]] = {}
        self.leaving: set[Subscription] = set()
        """Not made again on the next connection."""

    def deliver_directly(
        self, subscription: Subscription, callback: Callable[[Message], None]
    ) -> None:
        """Call back for each message as it is read, instead of queueing it for a task."""
        self._direct[subscription._id] = callback

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        callback = self._direct.get(sid)
        if callback is None:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(data)
        found = (await self._process_headers(headers) if headers else None) or {}
        message = Message(
            subject.decode("utf-8", "replace"), data, reply.decode("utf-8", "replace"), found
        )
        try:
            callback(message)
        except Exception:  # it would end the read loop, and with it every subscription
            log.exception("the callback of %s failed", message.subject)

    async def publish(
        self,
        subject: str,
        payload: bytes = b"",
        reply: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        """Queue a message for the flusher. nats-py refuses or buffers what cannot be sent now."""
        command = None
        if (
            self._status == Client.CONNECTED
            and len(payload) <= self._max_payload
            and subject
            and _is_plain(subject)
            and _is_plain(reply)
        ):
            command = _publish_command(subject, reply, payload, headers)
        if command is None:
            await super().publish(subject, payload, reply, headers)
            return
        self.stats["out_msgs"] += 1
        self.stats["out_bytes"] += len(payload)
        self._pending.append(command)
        self._pending_data_size += len(command)
        if self._pending_data_size > self._max_pending_size > 0:
            await self._flush_pending(force_flush=True)
        # The flusher writes many messages at once: a write for each cost more than its task.
        if self._flush_queue is not None and self._flush_queue.empty():
            await self._flush_pending()

    async def _send_ping(self, future: asyncio.Future[Any] | None = None) -> None:
        if self._pending and self.is_connected and self._transport is not None:
            self._transport.writelines(self._pending)
            self._pending = []
            self._pending_data_size = 0
        await super()._send_ping(future)

    async def _process_pong(self) -> None:
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()

    async def _process_connect_init(self) -> None:
        await super()._process_connect_init()
        # Last, without an await after it: a subscription may be left while the server is greeted.
        for subscription in self.leaving:
            subscription._stop_processing()
            self._remove_sub(subscription._id)
        self.leaving.clear()

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        if not self.is_connected:
            self._pending = []
            self._pending_data_size = 0
        await super()._close(status, do_cbs)

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None
    ) -> Msg:
        return Msg(
            _client=self,
            subject=subject.decode("utf-8", "replace"),
            reply=reply.decode("utf-8", "replace"),
            data=data,
            headers=headers,
            _sid=sid,
        )

    async def _process_headers(self, headers: bytes) -> dict[str, str] | None:
        usual = _usual_headers(headers) if headers else None
        if usual is not None:
            return usual
        try:
            return await super()._process_headers(headers)
        except (ValueError, IndexError):
            return None


def _is_plain(subject: str) -> bool:
    """Whether a subject has neither white space nor line breaks, which would end it."""
    return subject.isprintable() and " " not in subject


def _publish_command(
    subject: str, reply: str, payload: bytes, headers: Mapping[str, str] | None
) -> bytes | None:
    """PUB or HPUB of NATS's client protocol; None where a header holds a line break."""
    if not headers:
        return b"PUB %s %s %d\r\n%s\r\n" % (
            subject.encode(), reply.encode(), len(payload), payload,
        )  # fmt: skip
    # Added, not formatted: names may be members of an Enum of strings.
    lines = "\r\n".join([name + ": " + value for name, value in headers.items()])
    if lines.count("\n") >= len(headers) or lines.count("\r") >= len(headers):
        return None
    block = f"NATS/1.0\r\n{lines}\r\n\r\n".encode()
    return b"HPUB %s %s %d %d\r\n%s%s\r\n" % (
        subject.encode(), reply.encode(), len(block), len(block) + len(payload), block, payload,
    )  # fmt: skip


def _usual_headers(block: bytes) -> dict[str, str] | None:
    """The headers of a message as `_publish_command` writes them, at least one; None for any other
    block, which is left to nats-py.
    """
    if not block.startswith(_VERSION) or not block.endswith(b"\r\n\r\n") or not block.isascii():
        return None
    found = {}
    for line in block[len(_VERSION) : -4].decode("ascii").split("\r\n"):
        name, mark, value = line.partition(": ")
        # Printable: no white space but blanks.
        if not mark or not line.isprintable() or " " in name or ":" in name:
            return None
        found[name] = value.strip()
    return found


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

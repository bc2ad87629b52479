"""nats-py 2.16 with less work a message: what is overridden, and which change would end it.

Whole messages of `deliver_directly` are handed over as they are received. All else, and what
follows it until nats-py's read loop has caught up, goes into its stream.

Private methods may change in any release: pyproject.toml pins the minor version, and
tests/nats/test_overrides.py fails when the pinned release no longer needs an override.

| override | reason | ends when nats-py |
| --- | --- | --- |
| `Client._build_message` | decodes subjects as strict UTF-8; the error ends the read loop, and \
the connection receives nothing more | decodes them tolerantly, or drops the message and goes on |
| `Client._process_headers` | the same for the status line and its description; and it looks \
at each character of each name, which takes twice as long for the headers of a request | catches \
decoding errors there too, as it does for the header lines, and reads usual headers at once |
| `Client.publish` (public) | checks and translates each header by itself, in five coroutines one \
inside the other; a task with a queue writes what is published | checks all headers of a message \
at once, in one, and writes at the end of a turn of the loop |
| `Client._process_msg` | a queue and a task between a message and what takes it; \
only for subscriptions of `deliver_directly` | has subscriptions with a plain callback |
| `Client._remove_sub` | forgets such a subscription, too | has them |
| `Client._connect_to_server` | opens a `DirectTransport`, which hands these messages \
over as they are received | has a parser that needs no task |
| `Client._flush_pending` | drops a cancellation that comes while it waits for a slow server: \
the deadline of a request was lost, and it waited for ever | lets it through |
| `Client._send_ping` | writes the PING at once, before the commands that wait for the flusher: \
its PONG says nothing of an UNSUB among them, and a drain lost requests | sends it behind them |
| `Client._ping_interval` | pings as often while nothing is sent, which wakes an idle process \
twice a second | has an interval for quiet connections |
| `Client._process_pong` | a PONG that comes after its flush gave up is an error, which ends \
the read loop: nothing more is received until a ping is missed | ignores such a PONG |
| `Client._process_connect_init` | what was left while there was no server is subscribed to \
again on the next connection: a worker on standby got requests | can drop it without a connection |
| `Client._select_next_server` | tries a lost server at any place among the others; one that hangs \
accepts the connection, and costs the two seconds of its greeting; it also waits before another \
seed is tried | tries a lost server last |
| `Client._connect_command` | signs with the seed that it was made with; a key that was rotated \
was refused for ever | asks for the seed at each connect |
| `Client._process_err` | a user whom the server no longer knows ends the connection for good | \
connects again, as other clients do |
| `Client._attempt_reconnect` | waits until the lost server has read what was written to it: one \
that hangs never does, and the client had no server until it went on | gives up the connection |
| `Client._close` | writes what is pending to a connection that was lost; the error \
leaves the rest undone | closes without a connection too |
| `Service.info` (public) | lists only endpoints that micro subscribes to; these run one callback \
at a time, and stop() cuts them off instead of draining | can describe an endpoint that it does \
not subscribe to |
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import nats.errors
from nats.aio.client import DEFAULT_BUFFER_SIZE, Client, Srv
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.protocol.parser import AUTHORIZATION_VIOLATION, AWAITING_CONTROL_LINE

from .. import telemetry
from ..tasks import wait_for_event
from ..tls import TlsFiles
from ..transport import Message
from .direct import DirectTransport, is_plain, publish_command, read_messages, usual_headers
from .sign_in import Seeds

log = logging.getLogger("searchbus.bus")


QUIET_PING_INTERVAL_S = 3.0
"""While nothing is sent. Among several servers one that hangs is left as soon as ever."""


class BusClient(Client):
    """nats-py's client, with less work a message; invalid UTF-8 ends no connection. `seeds` and
    `tls_files` are asked at each connect."""

    def __init__(self, seeds: Seeds | None = None, tls_files: TlsFiles | None = None) -> None:
        super().__init__()
        self._seeds = seeds
        self._tls_files = tls_files
        self._was_refused = False
        self._direct: dict[int, Callable[[Message], None]] = {}
        self._writing = False
        self._sent = asyncio.Event()
        self.leaving: set[Subscription] = set()
        """Not made again on the next connection."""

    @property
    def demands_certificate(self) -> bool:
        """Whether the server that greeted last lets only clients with a certificate in."""
        return bool(self._server_info.get("tls_verify"))

    def deliver_directly(
        self, subscription: Subscription, callback: Callable[[Message], None]
    ) -> None:
        """Call back for each message as it is read, instead of queueing it for a task."""
        self._direct[subscription._id] = callback

    def _remove_sub(self, sid: int, max_msgs: int = 0) -> None:
        self._direct.pop(sid, None)
        super()._remove_sub(sid, max_msgs)

    async def _connect_to_server(self, server: Srv) -> None:
        if self._tls_files is not None:
            self.options["tls"] = self._tls_files.context()
        if server.uri.scheme in ("ws", "wss"):
            await super()._connect_to_server(server)
            return
        server.last_attempt = time.monotonic()
        if not isinstance(self._transport, DirectTransport):
            self._transport = DirectTransport(self._take)
        await self._transport.connect(
            server.uri, DEFAULT_BUFFER_SIZE, self.options["connect_timeout"]
        )

    def _take(self, data: bytes) -> bytes:
        """Deliver the messages at the start of received data; the rest is for nats-py's parser."""
        # It may have read a part of a message, to which this data belongs. Once the connection is
        # given up, it no longer knows: the rest of a message would be taken for commands.
        if not self.is_connected or self._ps.buf or self._ps.state != AWAITING_CONTROL_LINE:
            return data
        found, rest = read_messages(data, self._direct)
        for sid, message in found:
            callback = self._direct.get(sid)
            if callback is not None:
                self._deliver(callback, message)
        return rest

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        callback = self._direct.get(sid)
        if callback is None:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        found = (await self._process_headers(headers) if headers else None) or {}
        message = Message(
            subject.decode("utf-8", "replace"), data, reply.decode("utf-8", "replace"), found
        )
        self._deliver(callback, message)

    def _deliver(self, callback: Callable[[Message], None], message: Message) -> None:
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(message.data)
        try:
            callback(message)
        except Exception:  # it would end the connection, and with it every subscription
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
            and is_plain(subject)
            and is_plain(reply)
        ):
            command = publish_command(subject, reply, payload, headers)
        if command is None:
            await super().publish(subject, payload, reply, headers)
            return
        if not self._sent.is_set():
            self._sent.set()
        self.stats["out_msgs"] += 1
        self.stats["out_bytes"] += len(payload)
        self._pending.append(command)
        self._pending_data_size += len(command)
        if self._pending_data_size > self._max_pending_size > 0:
            await self._flush_pending(force_flush=True)
        # Many messages are written at once: a write for each cost more than it saves.
        if not self._writing:
            self._writing = True
            asyncio.get_running_loop().call_soon(self._write_pending)

    def _write_pending(self) -> None:
        """Write what was published in this turn of the event loop."""
        self._writing = False
        transport = self._transport
        if self._status != Client.CONNECTED or not self._pending or self._flush_queue is None:
            return  # it is written after the reconnect
        if isinstance(transport, DirectTransport) and transport.ready:
            try:
                transport.writelines(self._pending)  # type: ignore[no-untyped-call]
            except (OSError, RuntimeError):
                return  # the connection is lost, which the read loop sees in a moment
            self._pending = []
            self._pending_data_size = 0
        elif self._flush_queue.empty():
            # nats-py's flusher waits for a slow server.
            self._flush_queue.put_nowait(asyncio.get_running_loop().create_future())

    async def _flush_pending(self, force_flush: bool = False) -> Any:
        task = asyncio.current_task()
        cancelling = task.cancelling() if task is not None else 0
        found = await super()._flush_pending(force_flush)
        if task is not None and task.cancelling() > cancelling:
            raise asyncio.CancelledError
        return found

    async def _send_ping(self, future: asyncio.Future[Any] | None = None) -> None:
        if self._pending and self.is_connected and self._transport is not None:
            self._transport.writelines(self._pending)
            self._pending = []
            self._pending_data_size = 0
        await super()._send_ping(future)

    async def _ping_interval(self) -> None:
        interval_s = self.options["ping_interval"]
        loop = asyncio.get_running_loop()
        pinged_s = loop.time()
        while True:
            # The last one is hardly answered yet; two that are not make it urgent.
            if self._pings_outstanding <= 1 and len(self._server_pool) == 1:
                await wait_for_event(self._sent, QUIET_PING_INTERVAL_S)
            await asyncio.sleep(max(0.0, pinged_s + interval_s - loop.time()))
            self._sent.clear()
            pinged_s = loop.time()
            if not self.is_connected:
                continue
            self._pings_outstanding += 1
            if self._pings_outstanding > self.options["max_outstanding_pings"]:
                await self._process_op_err(nats.errors.StaleConnectionError())
                return
            try:
                await self._send_ping()
            except (RuntimeError, AttributeError):  # the connection is being closed
                return

    async def _process_pong(self) -> None:
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()

    def _connect_command(self) -> bytes:
        if self._seeds is not None:
            self._auth_configured = True
            self._nkeys_seed_str = self._seeds.next()
            self._setup_nkeys_connect()
        return super()._connect_command()

    async def _process_err(self, err_msg: str) -> None:
        if AUTHORIZATION_VIOLATION in err_msg.lower() and self.is_connected:
            self._note_refusal()
            await self._process_op_err(nats.errors.AuthorizationError())
            return
        await super()._process_err(err_msg)

    def _note_refusal(self) -> None:
        server = self._current_server
        self._was_refused = True
        if self._seeds is not None and server is not None:
            self._seeds.refused(f"{server.uri.hostname}:{server.uri.port}")

    async def _process_connect_init(self) -> None:
        try:
            await super()._process_connect_init()
        except nats.errors.Error as error:
            if AUTHORIZATION_VIOLATION in str(error).lower():
                self._note_refusal()
            raise
        if self._seeds is not None:
            self._seeds.accepted()
        if isinstance(self._transport, DirectTransport) and self._current_server is not None:
            uri = self._current_server.uri
            telemetry.note_certificate(f"{uri.hostname}:{uri.port}", self._transport.certificate)
        # Last, without an await after it: a subscription may be left while the server is greeted.
        for subscription in self.leaving:
            subscription._stop_processing()
            self._remove_sub(subscription._id)
        self.leaving.clear()

    async def _select_next_server(self) -> None:
        self._server_pool.sort(key=lambda server: server is self._current_server)
        if self._was_refused and self._seeds is not None and self._seeds.has_another:
            for server in self._server_pool:
                server.last_attempt = None  # with the other seed at once, without a pause
        self._was_refused = False
        await super()._select_next_server()

    async def _attempt_reconnect(self) -> None:
        if isinstance(self._transport, DirectTransport):
            self._transport.abort()
        await super()._attempt_reconnect()

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        if not self.is_connected:
            if isinstance(self._transport, DirectTransport):
                self._transport.abort()
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
        usual = usual_headers(headers) if headers else None
        if usual is not None:
            return usual
        try:
            return await super()._process_headers(headers)
        except (ValueError, IndexError):
            return None

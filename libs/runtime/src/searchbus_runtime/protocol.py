"""uvicorn's HTTP protocol with limits on connections, which hold before any application.

uvicorn waits without end for the head and the body of a request, and sets a timer after each
response. One watch a second looks at all connections in place of both: a request costs nothing. The
end of a request's task is the end of the task itself, without a callback of the loop.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

from httptools import HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from searchbus_bus.loop_watch import serves

log = logging.getLogger("searchbus.http")

MAX_HEAD_BYTES = 64 * 1024
"""Limit for the head of a request, and for the trailers behind its body: the parser keeps them in
memory, and copies a long line again with every piece of it."""
_MAX_HEADERS = 500
_IPV4_IN_IPV6 = "::ffff:"
REFUSED = b"HTTP/1.1 %b\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_LINGER_S = 1.0
"""A refused client may still be sending. The kernel resets a connection that is closed over unread
bytes, and the client loses the response; so it is read, and ignored, for this long."""
_MAX_LINGERING = 256
"""Refused connections that are kept open at once; further ones are closed immediately."""


class Connection(HttpToolsProtocol):
    """One connection, counted by a watch, which sees it wait for something (`waiting`)."""

    _lingering = 0

    def __init__(self, watch: ConnectionWatch, **options: Any) -> None:
        super().__init__(**options)
        self._watch = watch
        self._idle = False
        # Received since the last head that was complete, or the last part of a body.
        self._unread_bytes = 0
        self._body_left = 0
        """Bytes of a body that the parser does not read, see `_unsupported_upgrade_warning`."""
        self._stopped_at: int | None = None
        self._refused = False
        self._closing: asyncio.TimerHandle | None = None
        self.waiting: tuple[tuple[str, Any], float] | None = None

    def connection_made(self, transport: Any) -> None:
        """See asyncio.Protocol; one connection too many is refused."""
        super().connection_made(transport)
        self._joining: Any = JoiningTransport(transport, self.loop)
        if self.client is not None:
            # A socket of both families shows 192.0.2.7 as ::ffff:192.0.2.7; limits and trusted
            # proxies are about the address itself.
            self.client = (self.client[0].removeprefix(_IPV4_IN_IPV6), self.client[1])
        if not self._watch.admit(self, self.client[0] if self.client else ""):
            self._refuse(b"503 Service Unavailable")

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._watch.release(self)
        if self._closing is not None:
            self._closing.cancel()
            Connection._lingering -= 1
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol; a head or trailers that are too large are not read on."""
        while data and not self._refused:
            if self._body_left:
                data = self._take_body(data)
                continue
            self._unread_bytes += len(data)
            self._stopped_at = None
            super().data_received(data)
            data = b"" if self._stopped_at is None else data[self._stopped_at :]
            if self._unread_bytes and self._is_too_large() and not self._ends():
                self._refuse(b"431 Request Header Fields Too Large")

    def _unsupported_upgrade_warning(self) -> None:
        # A request may offer another protocol (RFC 9110, 7.8), and stays what it is. Behind its
        # head the parser stops; uvicorn would lose its body, or read it as the next request.
        error = sys.exception()
        assert isinstance(error, HttpParserUpgrade)
        self._stopped_at = error.args[0]

    def _take_body(self, data: bytes) -> bytes:
        """Take what the parser does not; the rest of the data."""
        part = data[: self._body_left]
        self._body_left -= len(part)
        self.on_body(part)
        if not self._body_left:
            self.on_message_complete()
        return data[len(part) :]

    def on_body(self, body: bytes) -> None:
        """Take a part of a body, which the application limits."""
        self._unread_bytes = 0
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """Start the application; raises ValueError, which ends the parser, for a bad head."""
        if self._unread_bytes > MAX_HEAD_BYTES or len(self.headers) > _MAX_HEADERS:
            # It may have come in one piece.
            size_bytes = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size_bytes > MAX_HEAD_BYTES or len(self.headers) > _MAX_HEADERS:
                self._refuse(b"431 Request Header Fields Too Large")
                raise ValueError("the head is too large")
        if [name for name, _ in self.headers].count(b"host") > 1:
            # A proxy before the server may have checked another one than the application would.
            self._refuse(b"400 Bad Request")
            raise ValueError("two Host headers")
        if self.parser.should_upgrade():
            headers = dict(self.headers)
            if b"transfer-encoding" in headers:
                self._refuse(b"400 Bad Request")
                raise ValueError("another protocol is offered for a body without a length")
            self._body_left = int(headers.get(b"content-length", 0))
        self._unread_bytes = 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End the request, unless its body is still to be taken."""
        if not self._body_left:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Start the next pipelined request; without one, the connection is idle."""
        if self.pipeline:
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        if not self.transport.is_closing():
            self.flow.resume_reading()
            self._idle = True

    def waits_for(self) -> tuple[str, Any] | None:
        """What the client must do next, and for which request; None where it is our turn."""
        cycle = self.cycle
        if self._ends() or self.flow.write_paused:
            return "read", cycle
        if self.pipeline:
            return None  # the client waits for an earlier request; this one is not read meanwhile
        if cycle is not None and not cycle.response_complete:
            return ("body", cycle) if cycle.more_body else None
        if not self._idle:
            return "head", cycle
        # Not idle while it keeps what its client does not read: closed then, it would end never.
        return ("read", None) if self.transport.get_write_buffer_size() else ("request", cycle)

    def give_up(self, waited_for: str) -> None:
        """Close a connection whose client was too slow."""
        if waited_for == "read":
            self.transport.abort()
            return
        if waited_for == "request":
            self.transport.close()
        else:
            self._refuse(b"408 Request Timeout")

    def _is_too_large(self) -> bool:
        return self._unread_bytes > MAX_HEAD_BYTES or len(self.headers or ()) > _MAX_HEADERS

    def _refuse(self, status: bytes) -> None:
        """Answer what cannot be read, and close; nothing is written into another response."""
        unanswered = self.cycle is None or self.cycle.response_complete
        if unanswered or not self.cycle.response_started:
            self.transport.write(REFUSED % status)
        self._refused = True
        # TLS cannot end one direction only, and a request in progress would write after the end.
        may_linger = unanswered and self.transport.can_write_eof()
        if not may_linger or Connection._lingering >= _MAX_LINGERING:
            self.transport.close()
            return
        self.transport.write_eof()
        self._closing = self.loop.call_later(_LINGER_S, self.transport.close)
        Connection._lingering += 1

    def _ends(self) -> bool:
        return self._refused or self.transport.is_closing()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP."""
        self._watch.malformed += 1
        if not self._ends():
            self._refuse(b"400 Bad Request")

    def _unset_keepalive_if_required(self) -> None:
        # uvicorn calls it first whenever it has received something.
        self._idle = False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        cycle.transport = self._joining
        self.tasks.add(self.loop.create_task(self._run(cycle, app)))

    @serves(lambda names: "{method} {path}".format(**names["cycle"].scope))
    async def _run(self, cycle: RequestResponseCycle, app: Any) -> None:
        try:
            await cycle.run_asgi(app)
        finally:
            self.tasks.discard(asyncio.current_task(self.loop))


class JoiningTransport:
    """The transport of a response: its head is written with the body that follows in the same turn
    of the loop, since uvicorn writes them one after the other, with a system call each."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Write, or keep a head until the next write or the end of this turn."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.writelines((head, data))
        elif data.startswith(b"HTTP/"):
            self._head = data
            self._loop.call_soon(self._flush)
        else:
            self._transport.write(data)

    def close(self) -> None:
        """Close once everything is written."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)


async def drained(send: Any) -> None:
    """Wait until the client has read nearly all of a response, or is gone."""
    cycle = getattr(send, "__self__", None)
    if isinstance(cycle, RequestResponseCycle):
        await cycle.flow.drain()


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of one server.

    Args:
        most: connections at once. A further one takes the place of the one that has been idle
            longest, or gets HTTP 503.
        most_per_address: of one client address; behind a proxy that is the proxy's.
        head_timeout_s: until the head of a request is complete, also on a new connection.
        body_timeout_s: until its body is complete, and for a client that does not read.
        idle_timeout_s: until the next request of a connection. A client that sends one while its
            connection is closed has neither an answer nor a reason. Libraries keep connections for
            4 to 90 s, the balancers of large clouds for 60 to 600 s; the server keeps them longer.
    """

    most: int = 4096
    most_per_address: int = 1024
    head_timeout_s: float = 10.0
    body_timeout_s: float = 60.0
    idle_timeout_s: float = 620.0


class ConnectionWatch:
    """Counts the connections of one server; every `interval_s` it closes those that are too
    slow.

    `busy` is set by a connection; after a look that finds none, nobody needs to look.
    """

    def __init__(self, limits: ConnectionLimits, *, interval_s: float = 1.0) -> None:
        self._limits = limits
        self.interval_s = interval_s
        self.busy = asyncio.Event()
        self._open: dict[Connection, str] = {}
        self._by_address: Counter[str] = Counter()
        self._refused = self._gave_way = 0
        self.malformed = 0
        """Requests that are no HTTP since the last look: a line for each could fill the log."""
        self._idle: dict[str | None, list[Connection]] | None = None
        """Idle connections by address, and all of them; the one that is idle longest is the last.
        Made when there is no room, at most once between two looks."""

    def look(self) -> None:
        """Look at every connection once."""
        now_s = asyncio.get_running_loop().time()
        self._idle = None
        closed = sum([self._close_if_slow(found, now_s) for found in list(self._open)])
        if closed or self._refused or self._gave_way or self.malformed:
            log.warning(
                "%d slow connections closed, %d idle ones closed at the limit, %d beyond the limit "
                "refused, %d requests that are no HTTP",
                closed, self._gave_way, self._refused, self.malformed,
            )  # fmt: skip
            self._refused = self._gave_way = self.malformed = 0
        if not self._open:
            self.busy.clear()

    def admit(self, connection: Connection, address: str) -> bool:
        """Count a new connection; False where it is one too many."""
        limits = self._limits
        full = self._by_address[address] >= limits.most_per_address
        if (full or len(self._open) >= limits.most) and not self._close_idlest(
            address if full else None
        ):
            self._refused += 1
            return False
        self._open[connection] = address
        self._by_address[address] += 1
        self.busy.set()
        return True

    def release(self, connection: Connection) -> None:
        """A connection has ended."""
        address = self._open.pop(connection, None)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def _close_idlest(self, address: str | None) -> bool:
        """Make room for a connection of this address, or of any; False where none is idle."""
        if self._idle is None:
            self._idle = {}
            seen = [one for one in self._open if one.waiting and one.waiting[0][0] == "request"]
            for one in sorted(seen, key=lambda one: one.waiting[1], reverse=True):  # type: ignore[index]
                for key in (None, self._open[one]):
                    self._idle.setdefault(key, []).append(one)
        found = self._idle.get(address, [])
        while found:
            one = found.pop()
            if one in self._open and one.waiting and one.waits_for() == one.waiting[0]:
                self._gave_way += 1
                self.release(one)
                one.give_up("request")
                return True
        return False

    def _close_if_slow(self, connection: Connection, now_s: float) -> bool:
        waits_for = connection.waits_for()
        if waits_for is None:
            connection.waiting = None
            return False
        if connection.waiting is None or connection.waiting[0] != waits_for:
            connection.waiting = (waits_for, now_s)
            return False
        limits = self._limits
        most_s = {"head": limits.head_timeout_s, "request": limits.idle_timeout_s}.get(
            waits_for[0], limits.body_timeout_s
        )
        if now_s - connection.waiting[1] < most_s:
            return False
        connection.give_up(waits_for[0])
        return waits_for[0] != "request"

"""An HTTP server inside a process that handles its signals itself.

uvicorn would install signal handlers of its own and end the process in its own order.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import uvicorn

from searchbus_bus.tasks import wait_for_event

from .addresses import NO_IPV6, url_of
from .protocol import Connection, ConnectionLimits, ConnectionWatch

_BACKLOG = 2048
_POLL_S = 0.01
_ACCEPTS_PER_TURN = 8
"""uvloop accepts one connection of each listening handle in a turn of the loop. With one handle,
the last of 16 clients that connect to a busy server waited 16 turns, 60 ms."""


def bind(host: str, port: int, *, reuse_port: bool = False) -> socket.socket:
    """A listening socket, for a caller that must know the port before it builds the application.

    Args:
        host: a name or an address; `::` is every address of IPv6 and of IPv4, of IPv4 alone where
            the kernel has no IPv6.
        port: 0 takes a free one.
        reuse_port: other processes may listen on the same port, if they say so as well; the kernel
            spreads connections over them (SO_REUSEPORT, Linux 3.9).

    Raises:
        OSError: the address cannot be bound, e.g. the port is taken.
    """
    try:
        listener = socket.create_server(
            (host, port),
            family=socket.AF_INET6 if ":" in host else socket.AF_INET,
            backlog=_BACKLOG,
            reuse_port=reuse_port,
            dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
        )
    except OSError as error:
        if host != "::" or error.errno not in NO_IPV6:
            raise
        return bind("0.0.0.0", port, reuse_port=reuse_port)  # noqa: S104 - `::` asks for it
    # Connections inherit it. asyncio sets it only where the socket names its protocol, and this one
    # does not: a response of two writes waited 40 ms for the client's delayed acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


class _Server(uvicorn.Server):
    """uvicorn's server with one timer a second, and none while nobody is connected."""

    def __init__(self, config: uvicorn.Config, watch: ConnectionWatch) -> None:
        super().__init__(config)
        self._watch = watch
        self._exit = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def exit(self, *, force: bool) -> None:
        self.should_exit = True
        self.force_exit = force
        self._exit.set()
        self._watch.busy.set()

    async def main_loop(self) -> None:
        """Keep the Date header true, and close slow connections, until `exit`."""
        while not await self.on_tick(0):
            self._watch.look()
            if self._watch.busy.is_set():
                await wait_for_event(self._exit, self._watch.interval_s)
            else:
                await self._watch.busy.wait()

    async def _wait_tasks_to_complete(self) -> None:
        # Its last step, asyncio's `wait_closed`, waits for all connections from Python 3.12 on.
        if not self.force_exit:
            await super()._wait_tasks_to_complete()


async def _serve(server: _Server, listener: socket.socket) -> None:
    handles = [listener, *(listener.dup() for _ in range(_ACCEPTS_PER_TURN - 1))]
    try:
        await server.serve(sockets=handles)
    except SystemExit:  # uvicorn's way to report a failed start
        raise RuntimeError("the application failed while it started; the log says why") from None
    finally:
        for handle in handles:
            handle.close()


class HttpServer:
    """A running server at the bound host and port; made by `start` or `serving`."""

    def __init__(self, server: _Server, task: asyncio.Task[None], host: str, port: int) -> None:
        self.host = host
        self.port = port
        self._server = server
        self._task = task

    @classmethod
    async def start(
        cls,
        app: Any,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        listener: socket.socket | None = None,
        limits: ConnectionLimits | None = None,
        trusted_proxies: Sequence[str] = (),
        **options: Any,
    ) -> HttpServer:
        """Serve an ASGI application; returns when it accepts connections.

        Args:
            port: 0 takes a free one.
            listener: of `bind`; then host and port are taken from it.
            limits: of its connections; the usual ones by default.
            trusted_proxies: addresses and networks whose X-Forwarded-For and X-Forwarded-Proto name
                the client; by default these headers are ignored.
            options: of uvicorn.Config.

        Raises:
            OSError: the address cannot be bound, e.g. the port is taken.
            RuntimeError: the application failed while it started.
        """
        listener = listener or bind(host, port)
        host, port = listener.getsockname()[:2]
        # httptools parses a request in a quarter of the time that h11 takes.
        watch = ConnectionWatch(limits or ConnectionLimits())
        defaults = {
            "http": partial(Connection, watch),
            # Nothing here speaks it, and the watch would not see the end of such a connection.
            "ws": "none",
            "log_config": None,
            "access_log": False,
            # uvicorn believes every process of this machine, unless it is told otherwise.
            "proxy_headers": bool(trusted_proxies),
            "forwarded_allow_ips": list(trusted_proxies),
        }
        config = uvicorn.Config(app, **{**defaults, **options})
        server = _Server(config, watch)
        task = asyncio.get_running_loop().create_task(_serve(server, listener))
        self = cls(server, task, host, port)
        try:
            await self._until_started()
        except asyncio.CancelledError:
            # uvicorn tells an application of the end only after it has started.
            await self._until_started()
            await self.stop()
            raise
        return self

    async def _until_started(self) -> None:
        while not self._server.started:
            if self._task.done():
                await self._task
            await asyncio.sleep(_POLL_S)

    @classmethod
    @asynccontextmanager
    async def serving(
        cls, app: Any, *, host: str = "127.0.0.1", port: int = 0, **options: Any
    ) -> AsyncIterator[HttpServer]:
        """The same as a context manager, which stops the server at its end."""
        server = await cls.start(app, host=host, port=port, **options)
        try:
            yield server
        finally:
            await server.stop()

    @property
    def url(self) -> str:
        """Its address, e.g. http://127.0.0.1:40123."""
        return url_of(self.host, self.port)

    async def stop(self, *, timeout_s: float | None = None, force: bool = False) -> None:
        """Stop accepting connections and wait for open requests: `timeout_s`, or uvicorn's limit;
        not if `force`."""
        self._server.exit(force=force)
        await asyncio.wait([self._task], timeout=timeout_s)

"""Connections to public addresses only: the checked address is the one that is connected to.

A name is resolved once, each of its addresses is checked, and the connection goes to a checked
address. There is no second resolution, so DNS rebinding has no effect. URL, Host header, TLS name
and certificate check stay as they are. A redirect opens a connection of its own through the same
guard.
"""

from __future__ import annotations

import asyncio
import fnmatch
import functools
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

import httpcore

from .addresses import Address, is_public_address, is_public_host

ALLOWED_PORTS = frozenset({80, 443, 8080, 8443})
_MAX_ADDRESSES = 4
"""Addresses of one name that are tried, in the resolver's order."""
Resolve = Callable[[str, int], Awaitable[list[Address]]]


_lookups = ThreadPoolExecutor(256, "lookup")
"""A thread starts when it is needed. With so many, 64 sites must be silent at once to stop all."""
_OF_ONE_SITE = 4
"""Lookups at once below one domain, whose name servers may not answer."""
_sites: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
"""The last two labels of a name; a semaphore exists while a lookup has it or waits for it."""


class AddressRefusedError(httpcore.ConnectError):
    """The host has an address that is not public, or the port is not allowed."""


class NameUnknownError(httpcore.ConnectError):
    """The name has no address."""


async def resolve(host: str, port: int) -> list[Address]:
    """Return all addresses of a host; raises OSError.

    In threads of its own: a lookup cannot be ended, and strangers choose the names. Those of one
    site leave threads for the others.
    """
    loop = asyncio.get_running_loop()
    site = ".".join(host.rstrip(".").lower().split(".")[-2:])
    slots = _sites.setdefault(site, asyncio.Semaphore(_OF_ONE_SITE))
    await slots.acquire()

    def ended(_: object) -> None:  # in the thread; also long after whoever asked has gone
        with suppress(RuntimeError):  # so has the loop
            loop.call_soon_threadsafe(slots.release)

    lookup = _lookups.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    lookup.add_done_callback(ended)
    found = await asyncio.wrap_future(lookup)
    texts = dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found)
    return [ipaddress.ip_address(text) for text in texts]


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Opens TCP connections for httpcore.

    Args:
        routes: the operator's allowlist: host pattern → `address:port` to connect to instead (an
            intranet, a fake).
        resolver, backend: replaced in tests; nothing else opens a connection.
    """

    def __init__(
        self,
        *,
        routes: Mapping[str, str] | None = None,
        resolver: Resolve = resolve,
        backend: httpcore.AsyncNetworkBackend | None = None,
    ) -> None:
        self._routes = dict(routes or {})
        self._resolver = resolver
        self._backend = backend or httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Resolve, check, connect.

        Raises:
            AddressRefusedError, NameUnknownError, httpcore.ConnectError.
        """
        connect = functools.partial(
            self._backend.connect_tcp,
            timeout=timeout, local_address=local_address, socket_options=socket_options,
        )  # fmt: skip
        route = self._route(host)
        if route is not None:
            target, _, target_port = route.rpartition(":")
            return await connect(target, int(target_port))
        if port not in ALLOWED_PORTS:
            raise AddressRefusedError(f"port {port} is not allowed")
        if not is_public_host(host):
            raise AddressRefusedError("the host is not public")
        try:
            addresses = await self._resolver(host, port)
        except (OSError, UnicodeError, ValueError):
            raise NameUnknownError("the name has no address") from None
        if not addresses:
            raise NameUnknownError("the name has no address")
        if not all(is_public_address(address) for address in addresses):
            raise AddressRefusedError("the host's address is not public")
        failure: Exception | None = None
        for address in addresses[:_MAX_ADDRESSES]:
            try:
                return await connect(str(address), port)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or NameUnknownError("the name has no address")

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Refuse: pages are never read from Unix sockets."""
        raise AddressRefusedError("unix sockets are not allowed")

    async def sleep(self, seconds: float) -> None:
        """Sleep as the backend does."""
        await self._backend.sleep(seconds)

    def allows_host(self, host: str) -> bool:
        """Whether the operator's allowlist names this host."""
        return self._route(host) is not None

    def for_page(self, host: str) -> GuardedBackend:
        """The guard of what the scripts of a page load, by the page's host.

        Scripts of the public web reach no host of the allowlist: they could change things there.
        """
        if self.allows_host(host):
            return self
        return GuardedBackend(resolver=self._resolver, backend=self._backend)

    def _route(self, host: str) -> str | None:
        name = host.rstrip(".").lower()
        return next(
            (to for pattern, to in self._routes.items() if fnmatch.fnmatch(name, pattern)), None
        )

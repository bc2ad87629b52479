"""Connects to the address of a host that accepts first (RFC 8305, "happy eyeballs").

uvloop tries one address after the other, so a host whose first address does not answer would use up
the whole time limit.
"""

from __future__ import annotations

import asyncio
import socket
import ssl

from .connection import Http1Connection

__all__ = ["connect"]

_NEXT_AFTER_S = 0.25
"""Until the next address is tried beside those before (RFC 8305, section 8)."""


async def connect(host: str, port: int, tls: ssl.SSLContext | None) -> Http1Connection:
    """The first connection that is made, with TLS after its handshake.

    Raises:
        OSError: the name has no address, or no address accepts; the reason of the first one.
        UnicodeError: the name cannot be one of a host.
    """
    addresses = await _addresses(host, port)
    if len(addresses) == 1:
        return await _attempt(addresses[0], host, port, tls)
    waiting = list(reversed(addresses))
    running: set[asyncio.Task[Http1Connection]] = set()
    lost: list[asyncio.Task[Http1Connection]] = []
    try:
        while waiting or running:
            if waiting:
                attempt = _attempt(waiting.pop(), host, port, tls)
                lost.append(asyncio.get_running_loop().create_task(attempt))
                running.add(lost[-1])
            done, running = await asyncio.wait(
                running,
                timeout=_NEXT_AFTER_S if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in done:
                if task.exception() is None:
                    lost.remove(task)
                    return task.result()
        return lost[0].result()
    finally:
        for task in lost:
            task.cancel()
            task.add_done_callback(_close)


async def _addresses(host: str, port: int) -> list[str]:
    """In the order of the system, but the second is one of the other family."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    if not found:
        raise OSError("the name has no address")
    other = next((at for at, entry in enumerate(found) if entry[0] != found[0][0]), 0)
    found.insert(min(1, other), found.pop(other))
    return [str(address[0]) for *_, address in found]


async def _attempt(
    address: str, host: str, port: int, tls: ssl.SSLContext | None
) -> Http1Connection:
    _, connection = await asyncio.get_running_loop().create_connection(
        Http1Connection, address, port, ssl=tls, server_hostname=None if tls is None else host
    )
    return connection


def _close(task: asyncio.Task[Http1Connection]) -> None:
    """Close what was connected too late; takes note of errors, which asyncio logs otherwise."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()

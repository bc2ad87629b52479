"""How a server is reached that listens on an address."""

from __future__ import annotations

import errno

NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
"""Errors of a kernel without IPv6; `::` is then every address of IPv4."""
_EVERY = ("0.0.0.0", "::", "")  # noqa: S104 - not bound here


def url_host(host: str) -> str:
    """The host in a URL for an address to listen on, as this machine reaches it: loopback where
    that is every address; an address of IPv6 is in brackets."""
    if host in _EVERY:
        return "127.0.0.1"  # `::` is every address of IPv4, too
    return f"[{host}]" if ":" in host else host


def url_of(host: str, port: int) -> str:
    """The URL of a server, e.g. http://127.0.0.1:8080; see `url_host`."""
    return f"http://{url_host(host)}:{port}"

"""Addresses of resources of servers: `searchbus://attach/<server>/<the server's own URI>`.

The server's URI, or URI template, stands there as it is. So an expanded template is the address of
what the server's own template gives, and two servers may have resources of the same URI.
"""

from __future__ import annotations

from urllib.parse import urlsplit

__all__ = ["own_uri", "wrapped_link", "wrapped_uri"]

_PREFIX = "searchbus://attach/"
_WEB = frozenset({"http", "https"})


def wrapped_uri(server: str, uri: str) -> str:
    """The address of a server's URI or URI template."""
    return f"{_PREFIX}{server}/{uri}"


def own_uri(server: str, uri: str) -> str | None:
    """The server's URI of an address; None where it is not one of this server."""
    prefix = f"{_PREFIX}{server}/"
    return uri.removeprefix(prefix) if uri.startswith(prefix) and uri != prefix else None


def wrapped_link(server: str, uri: str) -> str:
    """The same for a URI in a result: one of the web stays, since clients can fetch it."""
    try:
        of_web = urlsplit(uri).scheme in _WEB
    except ValueError:
        of_web = False
    return uri if of_web else wrapped_uri(server, uri)

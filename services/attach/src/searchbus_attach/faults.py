"""What ends a connection to a server, in words for the operator."""

from __future__ import annotations

__all__ = ["ServerFault"]


class ServerFault(RuntimeError):
    """A server that cannot be used as it behaves; the message says why, without secrets."""

"""What is wrong with a server or its declaration, in words for the operator."""

from __future__ import annotations

__all__ = ["DeclarationFault", "ServerFault"]


class DeclarationFault(ValueError):
    """A server is declared wrongly; the message names the key and says what to do."""


class ServerFault(RuntimeError):
    """A server that cannot be used as it behaves; the message says why, without secrets."""

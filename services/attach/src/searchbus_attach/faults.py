"""What is wrong with a server or its declaration, in words for the operator."""

from __future__ import annotations

__all__ = ["DeclarationFault", "ItselfFault", "ServerFault"]


class DeclarationFault(ValueError):
    """A server is declared wrongly; the message names the key and says what to do."""


class ServerFault(RuntimeError):
    """A server that cannot be used as it behaves; the message says why, without secrets."""


class ItselfFault(ServerFault):
    """A server that is the searchbus which attaches it: each list would contain the last one."""

    def __init__(self, name: str) -> None:
        super().__init__(f"it is this searchbus itself; searchbus attach remove {name}")

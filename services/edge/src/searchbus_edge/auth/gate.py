"""Before anything else: who sends this HTTP request (MCP authorization, RFC 6750, RFC 9728).

A refusal is complete: the status, WWW-Authenticate with the address of the resource's metadata, and
a JSON-RPC error as the body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from searchbus_contracts import Actor

from .identity import Identity, Unauthenticated
from .keys import StaticKeys
from .tokens import TokenVerifier

__all__ = ["METADATA_PATH", "Gate", "metadata"]

METADATA_PATH = "/.well-known/oauth-protected-resource"


class Gate:
    """Authenticates requests in one of three modes.

    Args:
        everybody: who calls in mode `none`.
        resource_url: where clients reach the edge, e.g. https://search.example.org; the audience of
            an endpoint is this with its path.
        audiences: further values of `aud` that are ours.
    """

    def __init__(
        self,
        *,
        everybody: Actor | None = None,
        tokens: TokenVerifier | None = None,
        keys: StaticKeys | None = None,
        resource_url: str = "",
        audiences: Sequence[str] = (),
    ) -> None:
        self._everybody = everybody
        self._tokens = tokens
        self._keys = keys
        self.resource_url = resource_url.rstrip("/")
        self._audiences = tuple(audiences)

    @property
    def open(self) -> bool:
        """Whether nobody has to say who it is."""
        return self._tokens is None and self._keys is None

    async def identify(self, headers: Mapping[bytes, bytes], path: str) -> Actor:
        """Who sends a request; raises Unauthenticated."""
        if self.open:
            assert self._everybody is not None
            return self._everybody
        given = headers.get(b"authorization", b"").decode("latin-1")
        scheme, _, credential = given.partition(" ")
        if not given:
            raise Unauthenticated("Send a bearer token.", code="")
        if scheme.lower() != "bearer" or not credential.strip() or " " in credential.strip():
            raise Unauthenticated("Send the token as 'Authorization: Bearer <token>'.")
        identity = await self._verify(credential.strip(), path)
        return identity.actor

    async def _verify(self, credential: str, path: str) -> Identity:
        if self._keys is not None:
            return self._keys.verify(credential)
        assert self._tokens is not None
        root = self.resource_url
        own = (f"{root}{path}", root, f"{root}/") if root else ()
        return await self._tokens.verify(credential, (*own, *self._audiences))

    def challenge(self, path: str, error: Unauthenticated) -> bytes:
        """WWW-Authenticate of a 401."""
        parts = [f'resource_metadata="{self.resource_url}{METADATA_PATH}{path}"']
        if error.code:
            parts = [f'error="{error.code}"', f'error_description="{error.message}"', *parts]
        return ("Bearer " + ", ".join(parts)).encode("latin-1", "replace")

    def insufficient(self, path: str, role: str) -> bytes:
        """WWW-Authenticate of a 403 (RFC 6750, 3.1; the scope is what is missing)."""
        return (
            f'Bearer error="insufficient_scope", scope="{role}", '
            f'error_description="The role {role} is needed.", '
            f'resource_metadata="{self.resource_url}{METADATA_PATH}{path}"'
        ).encode("latin-1", "replace")


def metadata(gate: Gate, path: str, issuers: Sequence[str], roles: Sequence[str]) -> dict[str, Any]:
    """Protected Resource Metadata of an endpoint (RFC 9728, 2)."""
    host = urlsplit(gate.resource_url).hostname or "searchbus"
    found: dict[str, Any] = {
        "resource": f"{gate.resource_url}{path}",
        "authorization_servers": list(issuers),
        "bearer_methods_supported": ["header"],
        "resource_name": f"searchbus at {host}",
    }
    if roles:
        found["scopes_supported"] = list(roles)
    return found

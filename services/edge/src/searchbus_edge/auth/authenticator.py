"""Authenticates HTTP requests (MCP authorization, RFC 6750, RFC 9728)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mcp.shared.auth import ProtectedResourceMetadata

from searchbus_contracts import Actor

from .identity import ANONYMOUS, UnauthenticatedError
from .static_keys import StaticKeys

if TYPE_CHECKING:
    from .tokens import TokenVerifier

METADATA_PATH = "/.well-known/oauth-protected-resource"
_NOT_OF_A_SCOPE = re.compile(r"[^\x21\x23-\x5b\x5d-\x7e]")


class Authenticator:
    """Authenticates requests by tokens or static keys; with neither, every request is let in.

    `resource_url` is the address of the edge for clients. The audience of an endpoint is this
    address with its path; `audiences` are further ones.
    """

    def __init__(
        self,
        *,
        default_actor: Actor = ANONYMOUS,
        tokens: TokenVerifier | None = None,
        keys: StaticKeys | None = None,
        resource_url: str = "",
        audiences: Sequence[str] = (),
    ) -> None:
        self._default_actor = default_actor
        self._tokens = tokens
        self._keys = keys
        self.resource_url = resource_url.rstrip("/")
        self._audiences = tuple(audiences)
        self.open = tokens is None and keys is None
        """Whether requests need no credential."""

    async def identify(self, authorization: str, path: str) -> Actor:
        """The caller of a request to `path` by its `authorization`; raises UnauthenticatedError."""
        if self.open:
            return self._default_actor
        scheme, _, credential = authorization.partition(" ")
        if not authorization:
            raise UnauthenticatedError("Send a bearer token.", code="")
        credential = credential.strip()
        if scheme.lower() != "bearer" or not credential or " " in credential:
            raise UnauthenticatedError("Send the token as 'Authorization: Bearer <token>'.")
        if self._keys is not None:
            return self._keys.verify(credential).at(path)
        assert self._tokens is not None
        root = self.resource_url
        own = (f"{root}{path}", root, f"{root}/") if root else ()
        return (await self._tokens.verify(credential, (*own, *self._audiences))).actor

    def challenge(self, path: str, error: UnauthenticatedError) -> bytes:
        """WWW-Authenticate of a 401."""
        parts = [f'resource_metadata="{self.resource_url}{METADATA_PATH}{path}"']
        if error.code:
            parts = [f'error="{error.code}"', f'error_description="{error.message}"', *parts]
        return ("Bearer " + ", ".join(parts)).encode("latin-1", "replace")

    def insufficient(self, path: str, role: str) -> bytes:
        """WWW-Authenticate of a 403 (RFC 6750, 3.1); the scope is the missing role.

        A worker wrote the role: only characters of a scope (RFC 6749, 3.3) enter the header.
        """
        role = _NOT_OF_A_SCOPE.sub("_", role)
        return (
            f'Bearer error="insufficient_scope", scope="{role}", '
            f'error_description="The role {role} is needed.", '
            f'resource_metadata="{self.resource_url}{METADATA_PATH}{path}"'
        ).encode("latin-1", "replace")


def metadata(authenticator: Authenticator, path: str, issuer: str | None) -> dict[str, Any]:
    """Protected Resource Metadata of an endpoint (RFC 9728, 2), as JSON; static keys have no
    issuer. The SDK's type, but not its routes: toolsets come and go."""
    host = urlsplit(authenticator.resource_url).hostname or "searchbus"
    # Validated from strings: an AnyHttpUrl of an empty path would get a slash at its end, and
    # clients compare issuers and resources exactly.
    found = {
        "resource": f"{authenticator.resource_url}{path}",
        "bearer_methods_supported": ["header"],
        "resource_name": f"searchbus at {host}",
    }
    if issuer is None:
        return found
    checked = ProtectedResourceMetadata.model_validate(found | {"authorization_servers": [issuer]})
    return checked.model_dump(mode="json", exclude_none=True)

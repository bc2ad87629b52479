"""How a remote server is signed in to: the table `auth` of its declaration.

[servers.tracker.auth]
type = "client_credentials"
issuer = "https://login.example.org"
client_id = "searchbus"
client_secret = "${TRACKER_SECRET}"
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

__all__ = ["OURSELVES", "Auth"]

OURSELVES = ""
"""The caller whose sign-in reads the lists, and calls a server that all callers share."""

_Text = Annotated[str, Meta(max_length=2_000)]


class Auth(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The table `auth`.

    Args:
        type: `client_credentials` (RFC 6749, 4.4) is one identity for all callers; `token_exchange`
            (RFC 8693) states who the caller is; `authorization_code` is a sign-in by a person.
        issuer: of the authorization server, exactly as it states it. Required where a secret is
            sent there; otherwise the server says who its authorization server is.
        client_id: that the authorization server knows. Empty: searchbus registers itself.
        scopes: default: those that the server asks for.
        resource: of the tokens (RFC 8707). Default: what the server states, or its URL.
        audience: of an exchanged token, where the authorization server wants a name instead.
    """

    type: Literal["client_credentials", "token_exchange", "authorization_code"]
    issuer: _Text = ""
    client_id: _Text = ""
    client_secret: _Text = ""
    scopes: tuple[_Text, ...] = ()
    resource: _Text = ""
    audience: _Text = ""

    def problem(self) -> str:
        """What is wrong with the keys together; empty if nothing is."""
        if self.type != "authorization_code" and not (self.issuer and self.client_id):
            return f"'auth' of type {self.type} needs 'issuer' and 'client_id'"
        if self.type == "client_credentials" and not self.client_secret:
            return "'auth' of type client_credentials needs 'client_secret'"
        if self.client_secret and not (self.issuer and self.client_id):
            return "'client_secret' needs 'issuer' and 'client_id': it is sent to that issuer only"
        if self.issuer:
            try:
                parts = urlsplit(self.issuer)
            except ValueError as error:
                return f"'issuer' is not an address: {error}"
            if parts.scheme not in ("http", "https") or not parts.netloc or parts.query:
                return "'issuer' must start with http:// or https:// and have no query"
        return ""

    def expanded(self, expand: Callable[[str], str]) -> Auth:
        """The table with the variables of its texts replaced by `expand`."""
        return msgspec.structs.replace(
            self,
            issuer=expand(self.issuer),
            client_id=expand(self.client_id),
            client_secret=expand(self.client_secret),
            resource=expand(self.resource),
            audience=expand(self.audience),
        )

"""The table `auth` of a declaration, and the methods of signing in that it can name.

[servers.tracker.auth]
type = "client_credentials"
issuer = "https://login.example.org"
client_id = "searchbus"
client_secret = "${TRACKER_SECRET}"

Another method is another row of METHODS with its name, and its branch in `Credentials._fetch`;
`Auth.header` says how a token is sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct

OURSELVES = ""
"""The caller whose sign-in reads the lists, and calls a server that all callers share."""

_HEADER = re.compile(r"(?i:x-[a-z0-9-]{1,60}|api-key|apikey|authorization)")
"""Others mean something to HTTP itself."""
_Text = Annotated[str, Meta(max_length=2_000)]


class Method(Struct, frozen=True):
    """A method of signing in to a server.

    Args:
        needs: the keys of the table that it needs.
        for_each_caller: whether it is of use only where each caller has a session.
        by_person: whether a person signs in, so that tokens are kept in the vault.
    """

    needs: tuple[str, ...] = ()
    for_each_caller: bool = False
    by_person: bool = False


MethodName = Literal["client_credentials", "token_exchange", "authorization_code", "api_key"]
METHODS: dict[MethodName, Method] = {
    # One identity for all callers (RFC 6749, 4.4).
    "client_credentials": Method(needs=("issuer", "client_id", "client_secret")),
    # A token that says who the caller is (RFC 8693).
    "token_exchange": Method(needs=("issuer", "client_id"), for_each_caller=True),
    # A sign-in by a person (RFC 6749, 4.1).
    "authorization_code": Method(by_person=True),
    # A key that a person has from the server and enters here, where the server has no OAuth.
    "api_key": Method(by_person=True),
}


class Auth(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The table `auth`.

    Args:
        type: a key of METHODS.
        issuer: of the authorization server, exactly as it states it. Required where a secret is
            sent there; otherwise the server says who its authorization server is.
        client_id: that the authorization server knows. Empty: searchbus names its metadata
            document where that is supported, and registers itself otherwise.
        scopes: default: those that the server asks for.
        resource: of the tokens (RFC 8707). Default: what the server states, or its URL.
        audience: of an exchanged token, where the authorization server wants a name instead.
        key_header: the header of an API key. Empty: `Authorization: Bearer` with the key.
    """

    type: MethodName
    issuer: _Text = ""
    client_id: _Text = ""
    client_secret: _Text = ""
    scopes: tuple[_Text, ...] = ()
    resource: _Text = ""
    audience: _Text = ""
    key_header: _Text = ""

    @property
    def is_key(self) -> bool:
        """Whether a person enters a key, so that no authorization server is asked."""
        return self.type == "api_key"

    @property
    def method(self) -> Method:
        """The row of its type."""
        return METHODS[self.type]

    def header(self, token: str) -> tuple[str, str]:
        """Name and value of the header that signs a request with a token."""
        return (self.key_header, token) if self.key_header else ("Authorization", f"Bearer {token}")

    def problem(self) -> str:
        """What is wrong with the keys together; empty if nothing is."""
        missing = [f"'{key}'" for key in self.method.needs if not getattr(self, key)]
        if missing:
            return f"'auth' of type {self.type} needs {' and '.join(missing)}"
        if self.key_header and not (self.is_key and _HEADER.fullmatch(self.key_header)):
            return "'key_header' is the name of a header such as X-Api-Key, of type api_key only"
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

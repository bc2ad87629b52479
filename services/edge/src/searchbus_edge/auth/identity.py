"""Callers: who they are, and which roles a token gives them.

Roles are read from claims wherever providers put them (docs/guides/keys.md). The names
of a path are separated by dots; `*` matches any one name; a claim with dots in its name is written
in quotes. A claim is a list, or a string separated by spaces. The prefix `ROLE_` is removed once.
Roles that Keycloak gives for one client (`resource_access.<client>.roles`) count only where the
setting ROLE_PATHS names that client: they were not given for this resource.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from searchbus_contracts import Actor
from searchbus_contracts.headers import bare_role

ANONYMOUS = Actor(subject="anonymous", roles=("*",))
"""The caller where there is no access control: the edge then listens on loopback only."""
DEFAULT_PATHS = (
    "roles",
    "realm_access.roles",
    "permissions",
    "authorities",
    "cognito:groups",
    "groups",
)
TENANT = "tenant:"
"""The subjects of tenants that borrow begin with it, and those of no other caller."""
_MAX_ROLES = 500
_PART = re.compile(r'"([^"]+)"|([^.]+)')


class UnauthenticatedError(Exception):
    """No valid credential; the message is for the client, and helps nobody to guess one. `code` is
    `invalid_token`, or empty where the request had no credential (RFC 6750, 3.1)."""

    def __init__(self, message: str, code: str = "invalid_token") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class Identity(Struct, frozen=True):
    """A caller, whose credential is verified again from `expires_s` (of the epoch) on; it is valid
    at these `endpoints` of MCP only (empty: everywhere)."""

    actor: Actor
    expires_s: float
    endpoints: tuple[str, ...] = ()

    def at(self, path: str) -> Actor:
        """The caller of a request to a path; raises UnauthenticatedError where it is not valid."""
        paths = [f"/mcp/{endpoint}" for endpoint in self.endpoints]
        if paths and path not in paths:
            raise UnauthenticatedError(f"The key is valid at {', '.join(paths)} only.")
        return self.actor


def roles_of(claims: Mapping[str, Any], paths: Iterable[str] = DEFAULT_PATHS) -> tuple[str, ...]:
    """The roles, sorted and unique. `*` (every role) is never read from a token."""
    found: set[str] = set()
    for path in paths:
        parts = [quoted or plain for quoted, plain in _PART.findall(path)]
        for value in _values(claims, parts):
            items = value.split() if isinstance(value, str) else value
            if isinstance(items, list):
                found |= {kept_role(item) for item in items if isinstance(item, str) and item}
    return tuple(sorted(found - {"*"}))[:_MAX_ROLES]


def kept_role(role: str) -> str:
    """A role without one prefix `ROLE_`, unless a second one is left: `ROLE_ROLE_A` is not `A`."""
    bare = bare_role(role)
    return role if bare != bare_role(bare) else bare


def _values(node: Any, parts: list[str]) -> Iterable[Any]:
    if not parts:
        yield node
    elif isinstance(node, Mapping):
        first, rest = parts[0], parts[1:]
        names = list(node) if first == "*" else [first] if first in node else []
        for name in names:
            yield from _values(node[name], rest)

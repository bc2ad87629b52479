"""Reads roles from the claims of a token, wherever an identity provider puts them.

| provider | path |
| --- | --- |
| Keycloak | `realm_access.roles`, `resource_access.<client>.roles` |
| Entra ID | `roles` |
| Auth0 | `permissions`, or a custom claim: `https://example.org/roles` |
| Cognito | `cognito:groups` |
| Spring | `authorities`, `scope` |

The names of a path are separated by dots; `*` matches any one name; a claim with dots in its name
is written in quotes. A claim is a list, or a string separated by spaces. The prefix `ROLE_` is
removed once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from searchbus_contracts.headers import bare_role

__all__ = ["DEFAULT_PATHS", "roles_of"]

DEFAULT_PATHS = (
    "roles",
    "realm_access.roles",
    "resource_access.*.roles",
    "permissions",
    "authorities",
    "cognito:groups",
    "groups",
)
_MAX_ROLES = 500
_PART = re.compile(r'"([^"]+)"|([^.]+)')


def roles_of(claims: Mapping[str, Any], paths: Iterable[str] = DEFAULT_PATHS) -> tuple[str, ...]:
    """The roles, sorted and unique. `*` (every role) is never read from a token."""
    found: set[str] = set()
    for path in paths:
        parts = [quoted or plain for quoted, plain in _PART.findall(path)]
        for value in _values(claims, parts):
            items = value.split() if isinstance(value, str) else value
            if isinstance(items, list):
                found |= {bare_role(item) for item in items if isinstance(item, str) and item}
    return tuple(sorted(found - {"*"}))[:_MAX_ROLES]


def _values(node: Any, parts: list[str]) -> Iterable[Any]:
    if not parts:
        yield node
    elif isinstance(node, Mapping):
        first, rest = parts[0], parts[1:]
        names = list(node) if first == "*" else [first] if first in node else []
        for name in names:
            yield from _values(node[name], rest)

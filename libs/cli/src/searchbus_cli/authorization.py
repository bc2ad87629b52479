"""The users of a NATS server with their permissions, from the services' declarations."""

from __future__ import annotations

import json
from collections.abc import Mapping

from searchbus_contracts.permissions import publishes, subscribes
from searchbus_contracts.services import Service
from searchbus_contracts.subjects import DEFAULT_PREFIX

__all__ = ["authorization", "users"]


def authorization(
    public_keys: Mapping[str, str], services: Mapping[str, Service], prefix: str = DEFAULT_PREFIX
) -> str:
    """The `authorization` block of a server's configuration; the arguments are those of `users`."""
    # JSON is a form of NATS's configuration language.
    found = {"users": users(public_keys, services, prefix)}
    return f"authorization: {json.dumps(found, indent=1)}\n"


def users(
    public_keys: Mapping[str, str], services: Mapping[str, Service], prefix: str = DEFAULT_PREFIX
) -> list[dict[str, object]]:
    """One user for each service. The server denies what is not in its lists.

    Args:
        public_keys, services: by the service's name.
        prefix: of the subjects.
    """
    return [
        {
            "nkey": key,
            "permissions": {
                "publish": {"allow": publishes(services[name], services.values(), prefix)},
                "subscribe": {"allow": subscribes(services[name], prefix)},
            },
        }
        for name, key in public_keys.items()
    ]

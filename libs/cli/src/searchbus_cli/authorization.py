"""The accounts of a NATS server: users and permissions, from the services' declarations.

Everyone on the bus is a user of the account BUS, with lists of subjects, and without JetStream. The
buckets of a service are in an account of its own, STORE_<service>, with a second key: accounts are
separate sets of subjects. In one account permissions would not be enough. A stream may copy any
subject, a consumer may deliver to any, and JetStream replies to whatever reply subject a request
names: NATS checks none of these against the lists of the user who asks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from searchbus_contracts.services import (
    Service,
    publishes,
    publishes_not,
    subscribes,
    subscribes_not,
)
from searchbus_contracts.subjects import DEFAULT_PREFIX

BUS = "BUS"


def store_account(service: str) -> str:
    """The account that holds the buckets of a service."""
    return f"STORE_{service}"


def with_buckets(services: Mapping[str, Service]) -> list[str]:
    """Names of the services that have buckets, and so a second key."""
    return [name for name, service in services.items() if service.buckets]


def authorization(
    public_keys: Mapping[str, str],
    store_keys: Mapping[str, str],
    services: Mapping[str, Service],
    prefix: str = DEFAULT_PREFIX,
) -> str:
    """The `accounts` block of a server's configuration; the arguments are those of `accounts`."""
    # JSON is a form of NATS's configuration language.
    found = accounts(public_keys, store_keys, services, prefix)
    return f"accounts: {json.dumps(found, indent=1)}\n"


def accounts(
    public_keys: Mapping[str, str],
    store_keys: Mapping[str, str],
    services: Mapping[str, Service],
    prefix: str = DEFAULT_PREFIX,
) -> dict[str, dict[str, object]]:
    """Name → account. On the bus the server denies what is not in a user's lists.

    Args:
        public_keys, services: by the service's name.
        store_keys: the second keys, of the services that have buckets.
        prefix: of the subjects.
    """
    found: dict[str, dict[str, object]] = {
        BUS: {"users": [_user(services, name, key, prefix) for name, key in public_keys.items()]}
    }
    for name, key in store_keys.items():
        found[store_account(name)] = {"jetstream": "enabled", "users": [{"nkey": key}]}
    return found


def _user(services: Mapping[str, Service], name: str, key: str, prefix: str) -> dict[str, object]:
    service, everybody = services[name], services.values()
    sends = _list(
        publishes(service, everybody, prefix), but=publishes_not(service, everybody, prefix)
    )
    receives = _list(subscribes(service, prefix), but=subscribes_not(service, everybody, prefix))
    return {"nkey": key, "permissions": {"publish": sends, "subscribe": receives}}


def _list(subjects: list[str], *, but: list[str]) -> dict[str, list[str]]:
    return {"allow": subjects, "deny": but} if but else {"allow": subjects}

"""What each service may do on the bus: everything else is denied (proto/README.md §4.4).

The lists of a NATS user follow from the services' declarations (services.py).
"""

from __future__ import annotations

from collections.abc import Collection

from .services import Service, may_call
from .subjects import DEFAULT_PREFIX

__all__ = ["inbox_prefix", "publishes", "subscribes"]

_BUCKET_REQUESTS = (
    "STREAM.CREATE.{stream}",
    "STREAM.INFO.{stream}",
    "STREAM.MSG.GET.{stream}",
    "DIRECT.GET.{stream}",
    "DIRECT.GET.{stream}.>",
    "CONSUMER.CREATE.{stream}",
    "CONSUMER.CREATE.{stream}.>",
    "CONSUMER.DELETE.{stream}.>",
    "CONSUMER.INFO.{stream}.>",
)


def inbox_prefix(service: str) -> str:
    """A service's own reply subjects start with this: no other service may subscribe there."""
    return f"_INBOX_{service}"


def publishes(
    service: Service, services: Collection[Service], prefix: str = DEFAULT_PREFIX
) -> list[str]:
    """Subjects a service may publish to; replies are allowed besides.

    Args:
        services: all that share the bus.
    """
    root = f"{prefix}.v1"
    found = {f"{root}.{subject}" for subject in service.calls}
    # A follower requests catalogs of every service, and cancels a request that took too long.
    if "*" in service.callees or service.follows_catalog:
        found.add(f"{root}.ctl.cancel.*")
    else:
        found |= {f"{root}.ctl.cancel.{name}" for name in service.callees}
    if service.serves:
        found |= {f"{root}.evt.catalog", f"{root}.ctl.ping.*"}
        # A worker that pulls the parts of a request may give that up.
        found.add(f"{root}.ctl.cancel.{service.group}")
        # Large requests are pulled in parts from the caller (§5).
        found |= {
            f"{inbox_prefix(caller.name)}.*.*.part"
            for caller in services
            if may_call(caller, service)
        }
    if service.follows_catalog:
        found |= {"$SRV.INFO", f"{root}.catalog.*"}
    for name in service.buckets:
        bucket = f"{prefix}_{name}"
        found.add(f"$KV.{bucket}.>")
        found |= {f"$JS.API.{r.format(stream=f'KV_{bucket}')}" for r in _BUCKET_REQUESTS}
    return sorted(found)


def subscribes(service: Service, prefix: str = DEFAULT_PREFIX) -> list[str]:
    """Subjects a service may subscribe to."""
    root = f"{prefix}.v1"
    found = {f"{inbox_prefix(service.name)}.>"}
    if service.serves:
        found |= {f"{root}.{subject}" for subject in service.serves}
        found |= {
            f"{root}.catalog.*",
            f"{root}.ctl.cancel.{service.group}",
            f"{root}.ctl.ping.*",
            "$SRV.>",
        }
    if service.follows_catalog:
        found.add(f"{root}.evt.catalog")
    return sorted(found)

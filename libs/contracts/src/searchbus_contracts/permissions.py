"""What each service may do on the bus: everything else is denied (proto/README.md §4.5).

The lists of a NATS user follow from the services' declarations (services.py). Replies are listed
too: NATS's `allow_responses` lets a user reply to a message that it sent itself, whose reply
subject can be any subject. JetStream is in none of these lists: the buckets of a service are in an
account of its own.
"""

from __future__ import annotations

from collections.abc import Collection

from .inboxes import DISCOVERY, PART, inbox_prefix
from .services import ATTACHED_FAMILIES, Service, may_call
from .subjects import DEFAULT_PREFIX

__all__ = ["publishes", "publishes_not", "subscribes", "subscribes_not"]


def publishes(
    service: Service, services: Collection[Service], prefix: str = DEFAULT_PREFIX
) -> list[str]:
    """Subjects a service may publish to, replies included.

    Args:
        services: all that share the bus.
    """
    root = f"{prefix}.v1"
    # To the queue group, and to one instance of it.
    found = {f"{root}.{to}{subject}" for subject in service.calls for to in ("", "at.*.")}
    if service.attaches_toolsets:
        # To another instance of its own, which has the session of a caller.
        found |= {f"{root}.at.*.{family}.*.*" for family in ATTACHED_FAMILIES}
    # A follower requests catalogs of every service, and cancels a request that took too long.
    everybody = "*" in service.callees or service.follows_catalog
    for name in ["*"] if everybody else service.callees:
        found |= {f"{root}.ctl.cancel.{name}", f"{root}.ctl.ping.{name}.*"}
    if service.serves:
        found |= {
            f"{root}.evt.catalog.{service.group}",
            f"{root}.ctl.ping.{service.group}.*",
            # A worker that pulls the parts of a request may give that up.
            f"{root}.ctl.cancel.{service.group}",
            # The reply to its own ping.
            f"{inbox_prefix(service.name)}.*.{service.group}.*",
        }
    for other in services:
        inbox = inbox_prefix(other.name)
        if service.serves and (may_call(other, service) or other.follows_catalog):
            # Replies, catalogues; and requests for the parts of a large request (§5).
            found.add(f"{inbox}.*.{service.group}.>")
        if service.serves and other.follows_catalog:
            found.add(f"{inbox}.*.{DISCOVERY}.*")
        if may_call(service, other) or (service.follows_catalog and other.serves):
            # Parts of large requests; credit for those of large replies, catalogues included.
            found.add(f"{inbox}.*.{PART}.*")
    if service.follows_catalog:
        found |= {"$SRV.INFO", "$SRV.INFO.*", f"{root}.catalog.*.*", f"{root}.ctl.ping.*.*"}
    return sorted(found)


def publishes_not(
    service: Service, services: Collection[Service], prefix: str = DEFAULT_PREFIX
) -> list[str]:
    """Subjects below those of `publishes` that are denied: toolsets that others declare.

    Args:
        services: all that share the bus.
    """
    return _of_others(service, services, prefix, to=("at.*.",))


def subscribes_not(
    service: Service, services: Collection[Service], prefix: str = DEFAULT_PREFIX
) -> list[str]:
    """Subjects below those of `subscribes` that are denied: toolsets that others declare.

    Args:
        services: all that share the bus.
    """
    return _of_others(service, services, prefix, to=("", "at.*."))


def _of_others(
    service: Service, services: Collection[Service], prefix: str, to: Collection[str]
) -> list[str]:
    if not service.attaches_toolsets:
        return []
    taken = {
        toolset for other in services if other.name != service.name for toolset in other.offers
    }
    return sorted(
        f"{prefix}.v1.{where}{family}.{toolset}.*"
        for toolset in taken
        for where in to
        for family in ATTACHED_FAMILIES
    )


def subscribes(service: Service, prefix: str = DEFAULT_PREFIX) -> list[str]:
    """Subjects a service may subscribe to."""
    root = f"{prefix}.v1"
    found = {f"{inbox_prefix(service.name)}.>"}
    if service.serves:
        found |= {f"{root}.{to}{subject}" for subject in service.serves for to in ("", "at.*.")}
        found |= {
            f"{root}.catalog.{service.group}.*",
            f"{root}.ctl.cancel.{service.group}",
            f"{root}.ctl.ping.{service.group}.*",
        }
        # Verb by verb: the server lets a list with `$SRV.*` subscribe to `$SRV.>`.
        for verb in ("PING", "INFO", "STATS"):
            found |= {f"$SRV.{verb}{of}" for of in ("", f".{service.group}", f".{service.group}.*")}
    if service.follows_catalog:
        found.add(f"{root}.evt.catalog.*")
    return sorted(found)

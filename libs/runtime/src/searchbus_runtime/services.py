"""The services that are installed, by the entry points of their packages."""

from __future__ import annotations

from importlib.metadata import entry_points

from searchbus_contracts.services import ENTRY_POINT_GROUP, OPERATOR, Service

__all__ = ["bus_users", "installed_services"]


def installed_services() -> dict[str, Service]:
    """Name → declaration of every installed service, sorted by name.

    Raises:
        TypeError: an entry point does not lead to a `Service` of that name.
    """
    found: dict[str, Service] = {}
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name):
        service = entry.load()
        if not isinstance(service, Service) or service.name != entry.name:
            raise TypeError(
                f"The entry point {entry.name} = {entry.value} of group {ENTRY_POINT_GROUP} must "
                f"lead to a Service named {entry.name}."
            )
        found[entry.name] = service
    return found


def bus_users() -> dict[str, Service]:
    """Everyone with a key on a locked bus: the services and the operator's command line."""
    return {**installed_services(), OPERATOR.name: OPERATOR}

"""Which service each toolset belongs to: the one that declares it, else the first that offers it.

A service can only put tools into lists under a toolset that is its own: the tools of another would
take the place of the owner's, with other descriptions and without their roles.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from . import telemetry

__all__ = ["Owners", "claims"]

log = logging.getLogger("searchbus.bus")


@dataclass(slots=True)
class _Holding:
    """An undeclared toolset's owner, and since when it does not offer the toolset any more."""

    service: str
    lost_s: float | None = None


class Owners:
    """Assigns toolsets to services.

    Args:
        declared: toolset → service; these toolsets belong to nobody else, also while the service
            is not running.
        grace_s: how long any other toolset stays with a running service that stopped offering it.
        clock: seconds.
    """

    def __init__(
        self,
        declared: Mapping[str, str],
        *,
        grace_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._declared = declared
        self._grace_s = grace_s
        self._clock = clock
        self._held: dict[str, _Holding] = {}
        self._refused: set[tuple[str, str]] = set()

    def update(self, offered: Mapping[str, Collection[str]]) -> dict[str, str]:
        """Assign the toolsets that are offered now; each toolset that its owner offers → owner.

        Args:
            offered: service → its toolsets, of all services that are listed.
        """
        self._release(offered)
        owners: dict[str, str] = {}
        refused: set[tuple[str, str]] = set()
        for service, toolsets in sorted(offered.items()):
            for toolset in toolsets:
                if self._owner(toolset, service) == service:
                    owners[toolset] = service
                else:
                    refused.add((service, toolset))
        for service, toolset in sorted(refused - self._refused):
            telemetry.count_refused("toolset")
            log.warning(
                "%s also offers the toolset %s, which belongs to %s; that offer is ignored",
                service,
                toolset,
                self._owner(toolset, service),
            )
        self._refused = refused
        return owners

    def _owner(self, toolset: str, service: str) -> str:
        """The owner; the service itself becomes it where there is none."""
        declared = self._declared.get(toolset)
        if declared is not None:
            return declared
        return self._held.setdefault(toolset, _Holding(service)).service

    def _release(self, offered: Mapping[str, Collection[str]]) -> None:
        now_s = self._clock()
        for toolset, holding in list(self._held.items()):
            if toolset in offered.get(holding.service, ()):
                holding.lost_s = None
            elif holding.lost_s is None:
                holding.lost_s = now_s
            # A service that is no longer listed was given its time already.
            gone = holding.service not in offered
            if gone or (holding.lost_s is not None and now_s - holding.lost_s > self._grace_s):
                del self._held[toolset]


def claims(
    offers: Mapping[str, Collection[str]], there: Collection[str]
) -> dict[str, tuple[str, ...]]:
    """Service → the toolsets that it claims: a service that is away gives way to one that is there.

    Args:
        offers: service → the toolsets of its catalogue.
        there: services that have workers, or had until a moment ago.
    """
    taken = {toolset for service in there for toolset in offers[service]}
    return {
        service: tuple(t for t in toolsets if service in there or t not in taken)
        for service, toolsets in offers.items()
    }

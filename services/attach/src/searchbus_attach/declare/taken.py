"""Names that an attached server cannot have: they are toolsets already."""

from __future__ import annotations

from collections.abc import Mapping

from searchbus_contracts.catalog import RESERVED_TOOLSETS
from searchbus_contracts.services import Service, toolset_owners

__all__ = ["taken_names"]


def taken_names(services: Mapping[str, Service]) -> frozenset[str]:
    """The toolsets that services declare, and those of the edge."""
    return frozenset({*toolset_owners(services), *RESERVED_TOOLSETS})

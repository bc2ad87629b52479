"""What all services offer at one moment: their catalogues, and who owns which toolset."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field

from searchbus_contracts import Catalog

__all__ = ["Listing"]


@dataclass(frozen=True, slots=True)
class Listing:
    """A directory publishes a new one whenever something changes.

    Args:
        generation: increases from one to the next.
        catalogs: sorted by service; one that is unchanged is the same object as before.
        owners: toolset → the service that it belongs to, of all toolsets that are offered.
    """

    generation: int = 0
    catalogs: tuple[Catalog, ...] = ()
    owners: Mapping[str, str] = field(default_factory=dict)

    def following(self, catalogs: tuple[Catalog, ...], owners: Mapping[str, str]) -> Listing | None:
        """The next listing; None where nothing has changed."""
        same = len(catalogs) == len(self.catalogs) and all(
            map(operator.is_, catalogs, self.catalogs)
        )
        if same and owners == self.owners:
            return None
        return Listing(self.generation + 1, catalogs, owners)

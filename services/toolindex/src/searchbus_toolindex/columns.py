"""What decides who sees an entry, as one array per property, indexed by slot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from searchbus_contracts import Actor
from searchbus_contracts.toolindex import Kind

from .entries import Entry
from .lexicon import Mask

__all__ = ["Columns"]

_KINDS: dict[Kind, int] = {"tool": 1, "prompt": 2, "resource": 3}


class Columns:
    """Per slot: kind, toolset, group of required roles, and its order among equal scores.

    `Columns.of(entries)` makes it; a slot without an entry belongs to no kind.
    """

    def __init__(self) -> None:
        self.kinds: NDArray[np.int8] = np.zeros(0, dtype=np.int8)
        self.toolsets: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self.groups: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self.place: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._toolset_ids: dict[str, int] = {}
        self._group_ids: dict[tuple[str, ...], int] = {}

    @classmethod
    def of(cls, entries: Sequence[Entry | None]) -> Columns:
        """The columns of these slots."""
        self = cls()
        size = len(entries)
        self.kinds = np.zeros(size, dtype=np.int8)
        self.toolsets = np.full(size, -1, dtype=np.int32)
        self.groups = np.full(size, -1, dtype=np.int32)
        self.place = np.zeros(size, dtype=np.int32)
        present = [(entry.key, slot) for slot, entry in enumerate(entries) if entry is not None]
        for place, (_, slot) in enumerate(sorted(present)):
            self.place[slot] = place
        for slot, entry in enumerate(entries):
            if entry is not None:
                self.kinds[slot] = _KINDS[entry.kind]
                self.toolsets[slot] = self._toolset_ids.setdefault(
                    entry.toolset, len(self._toolset_ids)
                )
                self.groups[slot] = self._group_ids.setdefault(
                    entry.required_roles, len(self._group_ids)
                )
        return self

    def visible(self, actor: Actor, kind: Kind, toolsets: Sequence[str]) -> Mask:
        """The slots of this kind and of these toolsets (all, if empty) that the actor may use."""
        mask: Mask = self.kinds == _KINDS[kind]
        allowed = [number for roles, number in self._group_ids.items() if actor.holds(roles)]
        if len(allowed) < len(self._group_ids):
            mask &= np.isin(self.groups, allowed)
        if toolsets:
            wanted = [self._toolset_ids[name] for name in toolsets if name in self._toolset_ids]
            mask &= np.isin(self.toolsets, wanted)
        return mask

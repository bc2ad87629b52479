"""What decides who sees an entry, as one array per property, indexed by slot."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from searchbus_contracts import Actor
from searchbus_contracts.toolindex import Kind

from .entries import Entry, Key
from .lexicon import Mask
from .scope import ScopeKey

__all__ = ["Columns"]

_KINDS: dict[Kind, int] = {"tool": 1, "prompt": 2, "resource": 3}
_FREE = 0
_NOT_KNOWN = -1


class Columns:
    """Per slot: kind, toolset, group of required roles, whether it is aside, digest, order among
    equal scores.
    """

    def __init__(self) -> None:
        self._size = 0
        self._kinds: NDArray[np.int8] = np.zeros(64, dtype=np.int8)
        self._toolsets: NDArray[np.int32] = np.zeros(64, dtype=np.int32)
        self._groups: NDArray[np.int32] = np.zeros(64, dtype=np.int32)
        self._aside: Mask = np.zeros(64, dtype=np.bool_)
        self._digests: NDArray[np.uint64] = np.zeros((64, 2), dtype=np.uint64)
        self._toolset_ids: dict[str, int] = {}
        self._group_ids: dict[tuple[str, ...], int] = {}
        self._ordered: list[tuple[Key, int]] = []
        self._added: set[tuple[Key, int]] = set()
        self._removed: set[tuple[Key, int]] = set()
        self._place: NDArray[np.int32] | None = None

    def put(self, slot: int, entry: Entry) -> None:
        """Set the properties of a slot."""
        if slot >= len(self._kinds):
            more = max(slot + 1, 2 * len(self._kinds)) - len(self._kinds)
            self._kinds = np.pad(self._kinds, (0, more))
            self._toolsets = np.pad(self._toolsets, (0, more))
            self._groups = np.pad(self._groups, (0, more))
            self._aside = np.pad(self._aside, (0, more))
            self._digests = np.pad(self._digests, ((0, more), (0, 0)))
        self._size = max(self._size, slot + 1)
        self._kinds[slot] = _KINDS[entry.kind]
        self._toolsets[slot] = self._toolset_ids.setdefault(entry.toolset, len(self._toolset_ids))
        self._groups[slot] = self._group_ids.setdefault(entry.required_roles, len(self._group_ids))
        self._aside[slot] = entry.aside
        self._digests[slot] = np.frombuffer(entry.digest, dtype="<u8")
        pair = (entry.key, slot)
        if pair in self._removed:
            self._removed.discard(pair)
        else:
            self._added.add(pair)
        self._place = None

    def clear(self, slot: int, key: Key) -> None:
        """Make a slot free: it belongs to no kind, and nobody sees it."""
        self._kinds[slot] = _FREE
        pair = (key, slot)
        if pair in self._added:
            self._added.discard(pair)
        else:
            self._removed.add(pair)
        self._place = None

    def sizes(self) -> Counter[str]:
        """The number of entries of each kind."""
        counts = np.bincount(self._kinds[: self._size], minlength=len(_KINDS) + 1)
        return Counter({kind: int(counts[code]) for kind, code in _KINDS.items() if counts[code]})

    @property
    def place(self) -> NDArray[np.int32]:
        """By slot, its place in the order by kind, toolset and name."""
        if self._place is None:
            self._sort()
            self._place = np.zeros(self._size, dtype=np.int32)
            self._place[[slot for _, slot in self._ordered]] = np.arange(len(self._ordered))
        return self._place

    def toolsets(self, slots: NDArray[np.intp]) -> NDArray[np.int32]:
        """A number for the toolset of each of these slots."""
        return self._toolsets[slots]

    def _sort(self) -> None:
        if self._removed:
            self._ordered = [pair for pair in self._ordered if pair not in self._removed]
            self._removed.clear()
        if self._added:
            self._ordered += self._added
            self._ordered.sort()
            self._added.clear()

    def scope_key(self, actor: Actor, kind: Kind, toolsets: Sequence[str]) -> ScopeKey:
        """The class of a caller: equal keys see the same slots."""
        allowed = tuple(number for roles, number in self._group_ids.items() if actor.holds(roles))
        wanted = sorted({self._toolset_ids.get(name, _NOT_KNOWN) for name in toolsets})
        return _KINDS[kind], allowed, tuple(wanted)

    def visible(self, key: ScopeKey) -> Mask:
        """The slots of this kind and of these toolsets (all, if empty) that the class may use."""
        kind, allowed, wanted = key
        mask: Mask = self._kinds[: self._size] == kind
        if len(allowed) < len(self._group_ids):
            mask &= np.isin(self._groups[: self._size], allowed)
        if wanted:
            mask &= np.isin(self._toolsets[: self._size], wanted)
        else:
            mask &= ~self._aside[: self._size]
        return mask

    def fingerprint(self, visible: Mask) -> str:
        """A hash of the visible entries.

        The digests are added up (modulo 2^64 each half), so that no order of entries matters.
        """
        total = self._digests[: self._size][visible].sum(axis=0, dtype=np.uint64)
        return hashlib.sha256(total.astype("<u8").tobytes()).hexdigest()[:16]

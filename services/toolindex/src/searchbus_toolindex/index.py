"""The index: entries in slots, with their words and vectors; what a caller may see of them.

Ranking is in ranking.py. Not thread-safe; use it on the event loop.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from searchbus_contracts import Actor
from searchbus_contracts.toolindex import Kind
from searchbus_vectors import Vector

from .cohort import load_cohort
from .entries import IndexEntry, Key
from .lexicon import Lengths, Lexicon, LiteralMatches, Mask, Vocabulary
from .vectors import EntryVectors

_KINDS: dict[Kind, int] = {"tool": 1, "prompt": 2, "resource": 3}
_FREE = 0
_ROW = np.dtype(
    [("kind", "i1"), ("toolset", "i4"), ("group", "i4"), ("aside", "?"), ("digest", "<u8", 2)]
)
_NOT_KNOWN = -1
_SCOPES_KEPT = 64
_SLICE = 50
"""Entries that are replaced in one piece: one takes about .15 ms."""

ScopeKey = tuple[int, tuple[int, ...], tuple[int, ...]]


@dataclass(slots=True, eq=False)
class Scope:
    """The entries that callers with the same roles see; valid until the index changes.

    Args:
        key: equal for callers that see the same.
        lengths: what BM25 counts over the visible slots.
        fingerprint: a hash of the visible entries: equal at every replica, independent of hidden
            entries.
        vocabulary: their words, sorted; made at first use.
    """

    key: ScopeKey
    lengths: Lengths
    fingerprint: str
    vocabulary: list[str] | None = None


class Columns:
    """What decides who sees an entry, by slot."""

    def __init__(self) -> None:
        self._size = 0
        self._rows = np.zeros(64, dtype=_ROW)
        self._toolset_ids: dict[str, int] = {}
        self._group_ids: dict[tuple[str, ...], int] = {}
        self._ordered: list[tuple[Key, int]] = []
        self._added: set[tuple[Key, int]] = set()
        self._removed: set[tuple[Key, int]] = set()
        self._place: NDArray[np.int32] | None = None

    def put(self, slot: int, entry: IndexEntry) -> None:
        """Set the properties of a slot."""
        if slot >= len(self._rows):
            self._rows = np.pad(self._rows, (0, max(slot + 1 - len(self._rows), len(self._rows))))
        self._size = max(self._size, slot + 1)
        self._rows[slot] = (
            _KINDS[entry.kind],
            self._toolset_ids.setdefault(entry.toolset, len(self._toolset_ids)),
            self._group_ids.setdefault(entry.required_roles, len(self._group_ids)),
            entry.aside,
            np.frombuffer(entry.digest, dtype="<u8"),
        )
        pair = (entry.key, slot)
        if pair in self._removed:
            self._removed.discard(pair)
        else:
            self._added.add(pair)
        self._place = None

    def clear(self, slot: int, key: Key) -> None:
        """Make a slot free: it belongs to no kind, and nobody sees it."""
        self._rows["kind"][slot] = _FREE
        pair = (key, slot)
        if pair in self._added:
            self._added.discard(pair)
        else:
            self._removed.add(pair)
        self._place = None

    def sizes(self) -> Counter[str]:
        """The number of entries of each kind."""
        counts = np.bincount(self._rows["kind"][: self._size], minlength=len(_KINDS) + 1)
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
        return np.asarray(self._rows["toolset"][slots])

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
        rows = self._rows[: self._size]
        mask: Mask = rows["kind"] == kind
        if len(allowed) < len(self._group_ids):
            mask &= np.isin(rows["group"], allowed)
        if wanted:
            mask &= np.isin(rows["toolset"], wanted)
        else:
            mask &= ~rows["aside"]
        return mask

    def fingerprint(self, visible: Mask) -> str:
        """A hash of the visible entries: their digests, added up, so that no order matters."""
        total = self._rows["digest"][: self._size][visible].sum(axis=0, dtype=np.uint64)
        return hashlib.sha256(total.astype("<u8").tobytes()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class IndexDifference:
    """What changes of a service: what is `gone`, and what is new or indexed otherwise."""

    gone: Sequence[Key]
    changed: Mapping[Key, IndexEntry]


class Index:
    """The entries of all services, with their words and their vectors, made by `model`; raises
    ValueError where the index was not fitted to it."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.cohort = load_cohort(model)
        self.slots: list[IndexEntry | None] = []
        self._free: list[int] = []
        self._slot_of: dict[Key, int] = {}
        self._owned: dict[str, dict[Key, IndexEntry]] = {}
        self.lexicon = Lexicon()
        self._vocabulary = Vocabulary()
        self.vectors = EntryVectors(self.cohort.penalty)
        self.literal = LiteralMatches()
        self.columns = Columns()
        self._scopes: LRUCache[ScopeKey, Scope] = LRUCache(_SCOPES_KEPT)
        self.version = 0

    def __len__(self) -> int:
        return len(self._slot_of)

    def replace(
        self,
        service: str,
        entries: Sequence[IndexEntry],
        vectors: Callable[[IndexEntry], list[Vector]],
    ) -> None:
        """Replace the entries of a service in one step; see `replacing`."""
        for _ in self.replacing(service, self.difference(service, entries), vectors):
            pass

    def difference(self, service: str, entries: Sequence[IndexEntry]) -> IndexDifference:
        """Compare what a service offers with what is indexed; in a thread, where it is much."""
        owned = self._owned.get(service, {})
        after = {entry.key: entry for entry in entries}
        return IndexDifference(
            [key for key in owned if key not in after],
            {
                key: entry
                for key, entry in after.items()
                if (owned[key].digest != entry.digest if key in owned else key not in self._slot_of)
            },  # fmt: skip  (the first service with a key keeps it)
        )

    def replacing(
        self,
        service: str,
        difference: IndexDifference,
        vectors: Callable[[IndexEntry], list[Vector]],
    ) -> Iterator[None]:
        """Replace the entries of a service in slices of a few milliseconds.

        Between two slices the index may be searched: each entry is there in its old or in its new
        form, and unchanged entries stay as they are.

        Args:
            vectors: called with each new entry; returns a vector for each of its `embedded` texts.
        """
        owned = self._owned.setdefault(service, {})
        changed = difference.changed
        try:
            for number, key in enumerate((*difference.gone, *changed), 1):
                if key in owned:
                    self._remove(owned.pop(key))
                if key in changed:
                    self._add(changed[key], vectors(changed[key]))
                    owned[key] = changed[key]
                if number % _SLICE == 0:
                    self._has_changed()
                    yield
        finally:  # also where `vectors` raises: the slots of removed entries are in no scope
            if not owned:
                del self._owned[service]
            self._has_changed()

    def _has_changed(self) -> None:
        self._scopes.clear()
        self.version += 1

    def _add(self, entry: IndexEntry, vectors: list[Vector]) -> None:
        slot = self._free.pop() if self._free else len(self.slots)
        if slot == len(self.slots):
            self.slots.append(None)
        self.slots[slot] = entry
        self._slot_of[entry.key] = slot
        self.columns.put(slot, entry)
        self.vectors.put(slot, vectors)
        counts = entry.count_terms()
        self.lexicon.add(slot, counts)
        self._vocabulary.add(slot, entry.words(counts))
        self.literal.add(slot, entry)

    def _remove(self, entry: IndexEntry) -> None:
        slot = self._slot_of.pop(entry.key)
        self.slots[slot] = None
        self._free.append(slot)
        self.columns.clear(slot, entry.key)
        self.vectors.clear(slot)
        counts = entry.count_terms()
        self.lexicon.remove(slot, counts)
        self._vocabulary.remove(slot, entry.words(counts))
        self.literal.remove(slot, entry)

    def scope(self, actor: Actor, kind: Kind, toolsets: Sequence[str] = ()) -> Scope:
        """The entries of this kind and of these toolsets (all, if empty) that the actor may use."""
        key = self.columns.scope_key(actor, kind, toolsets)
        scope = self._scopes.get(key)
        if scope is None:
            mask = self.columns.visible(key)
            scope = Scope(key, self.lexicon.lengths(mask), self.columns.fingerprint(mask))
            self._scopes[key] = scope
        return scope

    def vocabulary(self, scope: Scope) -> list[str]:
        """The words of the visible entries, sorted."""
        if scope.vocabulary is None:
            scope.vocabulary = self._vocabulary.visible(scope.lengths.visible)
        return scope.vocabulary

"""The index: entries in slots, with their words and vectors; what a caller may see of them.

    index = Index(embedder.model)
    index.replace("weather", entries, vectors_of)
    scope = index.scope(actor, "tool")

Ranking is in ranking.py. Not thread-safe; use it on the event loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cachetools import LRUCache

from searchbus_contracts import Actor
from searchbus_contracts.toolindex import Kind
from searchbus_vectors import Vector

from .cohort import load_cohort
from .columns import Columns
from .entries import Entry, Key
from .lexicon import Lexicon
from .literal import LiteralMatches
from .scope import Scope, ScopeKey
from .vectors import EntryVectors
from .vocabulary import Vocabulary

__all__ = ["Difference", "Index"]

_SCOPES_KEPT = 64
_SLICE = 50
"""Entries that are replaced in one piece: one takes about .15 ms."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What changes of a service.

    Args:
        gone: of entries that are indexed and no longer offered.
        changed: entries that are new, or not indexed so.
    """

    gone: Sequence[Key]
    changed: Mapping[Key, Entry]


class Index:
    """The entries of all services, with their vectors and words.

    Args:
        model: what makes the vectors (`Embedder.model`).

    Raises:
        ValueError: the index was not fitted to this model.
    """

    def __init__(self, model: str) -> None:
        self.model = model
        self.cohort = load_cohort(model)
        self.slots: list[Entry | None] = []
        self._free: list[int] = []
        self._slot_of: dict[Key, int] = {}
        self._owned: dict[str, dict[Key, Entry]] = {}
        self.lexicon = Lexicon()
        self._vocabulary = Vocabulary()
        self.vectors = EntryVectors(self.cohort.penalty)
        self.literal = LiteralMatches()
        self.columns = Columns()
        self._scopes: LRUCache[ScopeKey, Scope] = LRUCache(_SCOPES_KEPT)
        self.version = 0

    def sizes(self) -> Counter[str]:
        """The number of entries of each kind."""
        return self.columns.sizes()

    def __len__(self) -> int:
        return len(self._slot_of)

    def entries(self, service: str) -> Mapping[Key, Entry]:
        """The entries of a service."""
        return self._owned.get(service, {})

    @property
    def services(self) -> list[str]:
        """Services with entries."""
        return list(self._owned)

    def replace(
        self, service: str, entries: Sequence[Entry], vectors: Callable[[Entry], list[Vector]]
    ) -> None:
        """Replace the entries of a service in one step; see `replacing`."""
        for _ in self.replacing(service, self.difference(service, entries), vectors):
            pass

    def difference(self, service: str, entries: Sequence[Entry]) -> Difference:
        """Compare what a service offers with what is indexed; in a thread, where it is much."""
        owned = self._owned.get(service, {})
        after = {entry.key: entry for entry in entries}
        return Difference(
            [key for key in owned if key not in after],
            {
                key: entry
                for key, entry in after.items()
                if (owned[key].digest != entry.digest if key in owned else key not in self._slot_of)
            },  # fmt: skip  (the first service with a key keeps it)
        )

    def replacing(
        self, service: str, difference: Difference, vectors: Callable[[Entry], list[Vector]]
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

    def _add(self, entry: Entry, vectors: list[Vector]) -> None:
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

    def _remove(self, entry: Entry) -> None:
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

    def is_known(self, term: str, scope: Scope) -> bool:
        """Whether a visible entry contains the stem."""
        return self.lexicon.frequency(term, scope.mask) > 0

    def vocabulary(self, scope: Scope) -> list[str]:
        """The words of the visible entries, sorted."""
        if scope.vocabulary is None:
            scope.vocabulary = self._vocabulary.visible(scope.mask)
        return scope.vocabulary

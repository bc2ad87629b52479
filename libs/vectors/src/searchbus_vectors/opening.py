"""The collections of one folder: those that are open, and those that are set aside.

A collection that cannot be opened is set aside, and the others work. One that a full disk kept from
being opened is opened once there is space.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from .free_space import FreeSpace
from .shards import Shard, find_shards, open_shard
from .store import CollectionDamaged, CollectionMissing, StorageFull

__all__ = ["OpenCollections"]

log = logging.getLogger("searchbus.vectors")


class OpenCollections:
    """Opens every collection below `folder`; that blocks.

    Attributes:
        shards: those that are open, by name.
    """

    def __init__(self, folder: Path, space: FreeSpace) -> None:
        self.shards: dict[str, Shard] = {}
        self._folder = folder
        self._space = space
        self._damaged: dict[str, str] = {}
        self._without_space: set[str] = set()
        for name in find_shards(folder):
            self._open(name)

    @property
    def damaged(self) -> Mapping[str, str]:
        """What is wrong with collections that are set aside, or cannot be read in part; by name."""
        full = {name: "the disk is too full to open it" for name in self._without_space}
        return dict(sorted((self._damaged | full).items()))

    def waits_for_space(self, name: str) -> bool:
        """Whether a full disk kept a collection from being opened."""
        return name in self._without_space

    def open_again(self, name: str) -> None:
        """Open a collection that waits for space; raises StorageFull where there is none yet."""
        self._space.check()
        if name in self._without_space:
            self._without_space.discard(name)
            self._open(name)

    def get(self, name: str) -> Shard:
        """An open collection; raises CollectionDamaged or CollectionMissing."""
        shard = self.shards.get(name)
        if shard is None:
            self.check(name)
            raise CollectionMissing(name)
        return shard

    def check(self, name: str) -> None:
        """Raise CollectionDamaged where a collection is damaged and not open."""
        if name in self._damaged and name not in self.shards:
            raise CollectionDamaged(name, self._damaged[name])

    def mark_damaged(self, error: CollectionDamaged) -> None:
        """Note that something of a collection cannot be read; the first reason stays."""
        if error.collection not in self._damaged:
            log.error("%s", error)
        self._damaged.setdefault(error.collection, error.reason)

    def forget(self, name: str) -> None:
        """Remove a collection from those that are set aside: its folder is gone."""
        self._damaged.pop(name, None)
        self._without_space.discard(name)

    def _open(self, name: str) -> None:
        """Open a collection, or set it aside."""
        try:
            self.shards[name] = open_shard(self._folder / name)
        except CollectionDamaged as error:
            self._damaged[name] = error.reason
            log.error("%s; it is set aside", error)
        except StorageFull as error:
            self._without_space.add(name)
            log.error("collection %s is set aside until there is space: %s", name, error)

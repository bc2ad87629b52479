"""Failures of the store as failures of the wire.

with typed(collection):
    await store.upsert(collection, points)
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from searchbus_contracts import ErrorCode, Fault
from searchbus_vectors import CollectionDamaged, CollectionMissing, StorageFull

__all__ = ["damaged_collection", "typed", "unknown_collection"]

log = logging.getLogger("searchbus.retrieval")


@contextmanager
def typed(collection: str) -> Iterator[None]:
    """Raise Fault(not_found | unavailable | storage_full) for what the store raises."""
    try:
        yield
    except CollectionMissing:
        raise unknown_collection(collection) from None
    except CollectionDamaged as error:
        raise damaged_collection(error.collection, error.reason) from error
    except StorageFull as error:
        log.warning("collection %s: storage is full: %s", collection, error)
        raise Fault(
            ErrorCode.STORAGE_FULL,
            "The disk of the documents is full. Nothing was stored; what is stored can be read. "
            "Free space or delete a collection, then send it again.",
        ) from error


def unknown_collection(collection: str) -> Fault:
    """The failure for a collection that does not exist, or that the caller may not read."""
    return Fault(
        ErrorCode.NOT_FOUND,
        f"There is no collection '{collection}'. Make it by "
        f"`searchbus ingest SOURCE --collection {collection}`.",
    )


def damaged_collection(collection: str, reason: str) -> Fault:
    """The failure for a collection whose files are damaged."""
    return Fault(
        ErrorCode.UNAVAILABLE,
        f"Collection '{collection}' is damaged: {reason}. Put its folder back from a copy and "
        "restart the service, or delete the collection and ingest it again.",
        retryable=False,
    )

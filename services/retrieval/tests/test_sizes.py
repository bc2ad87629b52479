"""Metrics of the sizes of the collections."""

from __future__ import annotations

from searchbus_retrieval import sizes
from searchbus_retrieval.sizes import Sizes
from searchbus_testing import until

from .conftest import document


async def test_sizes_are_counted_in_the_background(library, monkeypatch):
    """By collection; beyond the limit all share one name."""
    monkeypatch.setattr(sizes, "MAX_COLLECTIONS", 1)
    await library.store("c", document("w", "Whales. " * 400))
    await library.store("d", document("v", "Dolphins.", collection="d"))
    async with Sizes(library, every_s=0.01) as counted:
        await until(lambda: len(list(counted.read(0))) == 2)
        assert list(counted.damaged()) == [(0, {})]
        assert [(n, dict(labels)) for n, labels in counted.read(0)] == [
            (1, {"collection": "c"}), (1, {"collection": "other"})
        ]  # fmt: skip
        assert [n for n, _ in counted.read(1)] == [4, 1]


async def test_failed_count_does_not_stop_the_next_one(library, monkeypatch):
    """The service works without these metrics; each failure is counted."""
    counted_failures: list[str] = []
    monkeypatch.setattr(sizes.telemetry, "count_failed", counted_failures.append)
    failures = [RuntimeError("away"), RuntimeError("away")]
    count = library.list_collections

    async def failing():
        if failures:
            raise failures.pop()
        return await count()

    monkeypatch.setattr(library, "list_collections", failing)
    await library.store("c", document("w", "Whales."))
    async with Sizes(library, every_s=0.01) as counted:
        await until(lambda: list(counted.read(0)))
    assert counted_failures == ["sizes", "sizes"]

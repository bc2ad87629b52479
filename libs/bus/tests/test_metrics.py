"""Gauges over live objects."""

from __future__ import annotations

import gc
from typing import Any

from searchbus_bus import SECONDS, LiveGauge


class Meter:
    def create_observable_gauge(self, name: str, callbacks: list[Any], **options: Any) -> None:
        self.name = name
        self._callbacks = callbacks

    def read(self) -> dict[tuple[tuple[str, str], ...], float]:
        found = [o for callback in self._callbacks for o in callback(None)]
        return {tuple(sorted(o.attributes.items())): o.value for o in found}


class Pool:
    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size


def gauge() -> tuple[Meter, LiveGauge[Pool]]:
    meter = Meter()
    return meter, LiveGauge(meter, "pools", lambda p: [(p.size, {"pool": p.name})])  # type: ignore[arg-type]


def test_watched_objects_are_read_when_the_gauge_is():
    """The value at that moment."""
    meter, pools = gauge()
    pool = Pool("a", 1)
    pools.watch(pool)
    pool.size = 7
    assert meter.read() == {(("pool", "a"),): 7}


def test_values_with_equal_attributes_are_summed():
    """A worker served twice in one process is one time series."""
    meter, pools = gauge()
    kept = [Pool("a", 1), Pool("a", 2), Pool("b", 4)]
    for pool in kept:
        pools.watch(pool)
    assert meter.read() == {(("pool", "a"),): 3, (("pool", "b"),): 4}


def test_an_object_that_is_gone_is_not_read():
    """The gauge keeps nothing alive."""
    meter, pools = gauge()
    pool = Pool("a", 1)
    pools.watch(pool)
    del pool
    gc.collect()
    assert meter.read() == {}


def test_buckets_of_seconds_increase():
    """From a millisecond to a minute."""
    assert list(SECONDS) == sorted(set(SECONDS))
    assert (SECONDS[0], SECONDS[-1]) == (0.001, 60)

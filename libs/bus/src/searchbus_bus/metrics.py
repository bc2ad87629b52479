"""Helpers for metrics (OpenTelemetry): buckets for seconds, gauges over live objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar
from weakref import WeakSet

from opentelemetry.metrics import CallbackOptions, Meter, Observation

__all__ = ["SECONDS", "LiveGauge"]

T = TypeVar("T")

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Bucket bounds of durations in seconds; OpenTelemetry's defaults fit milliseconds."""


class LiveGauge(Generic[T]):
    """A gauge over objects, each read until it is garbage collected.

    Args:
        read: returns the values of one object, each with its attributes.
    """

    def __init__(
        self,
        meter: Meter,
        name: str,
        read: Callable[[T], Iterable[tuple[float, Mapping[str, str]]]],
        *,
        unit: str = "1",
        description: str = "",
    ) -> None:
        self._read = read
        self._live: WeakSet[T] = WeakSet()
        meter.create_observable_gauge(
            name, callbacks=[self._observe], unit=unit, description=description
        )

    def watch(self, thing: T) -> None:
        """Read this object from now on."""
        self._live.add(thing)

    def _observe(self, _: CallbackOptions) -> Iterable[Observation]:
        # Values with equal attributes (a worker served twice in one process) are summed.
        sums: dict[tuple[tuple[str, str], ...], float] = {}
        for thing in list(self._live):
            for value, attributes in self._read(thing):
                key = tuple(sorted(attributes.items()))
                sums[key] = sums.get(key, 0.0) + value
        return [Observation(value, dict(key)) for key, value in sums.items()]

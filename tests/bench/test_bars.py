"""Bars: what a bench has to reach."""

from __future__ import annotations

from importlib import import_module
from inspect import signature

import pytest

from .__main__ import BENCHES
from .bars import BARS, Bar, bars_of


@pytest.mark.parametrize("name", BENCHES)
def test_each_bench_is_a_module_that_runs(name: str) -> None:
    bench = import_module(f".{name}", __package__)
    assert list(signature(bench.run).parameters) == ["reference", "workdir"]


def test_each_bar_is_of_a_bench() -> None:
    assert BARS.keys() <= {*BENCHES}


@pytest.mark.parametrize(
    ("sign", "value", "missed"),
    [(">=", 3.0, False), (">=", 2.9, True), ("<=", 3.0, False), ("<=", 3.1, True), ("<=", None, False)],
)  # fmt: skip
def test_a_bar_is_missed_on_its_wrong_side(sign: str, value: float | None, missed: bool) -> None:
    assert missed == Bar("bench", "name", sign, 3.0, value).missed


def test_a_measurement_that_was_not_measured_is_named() -> None:
    bars = bars_of("tracing", {})
    assert [(bar.name, bar.value) for bar in bars] == [("added share of p50", None)]

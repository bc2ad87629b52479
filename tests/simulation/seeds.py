"""How many seeds a scenario gets: few in `make test`, many in `make test-all`.

    @quick
    def test_calls(seed): ...

    test_calls_many = many(test_calls)

hypothesis prints the seed of a failing run and tries it first in the next one. To run a seed alone:
`SIMULATION_SEED=7 pytest tests/simulation -k calls`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

_ONE = os.environ.get("SIMULATION_SEED")
_SEEDS = st.just(int(_ONE)) if _ONE else st.integers(0, 2**32 - 1)
_CHECKS = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture)
quick_steps = settings(max_examples=10, stateful_step_count=25, suppress_health_check=_CHECKS)
slow_steps = settings(max_examples=50, stateful_step_count=60, suppress_health_check=_CHECKS)


def quick(test: Callable[..., Any]) -> Callable[..., Any]:
    """A few seeds."""
    return settings(max_examples=8, suppress_health_check=_CHECKS)(given(seed=_SEEDS)(test))


def many(test: Callable[..., Any]) -> Callable[..., Any]:
    """The same test with many seeds, among the slow ones."""
    inner = test.hypothesis.inner_test  # type: ignore[attr-defined]
    every = settings(max_examples=50, suppress_health_check=_CHECKS)(given(seed=_SEEDS)(inner))
    return pytest.mark.slow(every)

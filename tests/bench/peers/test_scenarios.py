"""The arithmetic of the comparison; and that it runs, with two servers in Python."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from .comparison import ALL, KILLED, LIST, PACED, POISONED, SLOW, Times, compare, row
from .programs import SERVERS, pins
from .scenarios import PACE_PER_S, Outcome, failure, recovery_s
from .system import Peer, Running, Starter
from .systems import bare


@pytest.mark.parametrize(
    ("status", "message", "found"),
    [
        (200, {"result": {"content": []}}, None),
        (200, {"result": {"content": [], "isError": True}}, "isError"),
        (200, {"error": {"code": -32603}}, "JSON-RPC error -32603"),
        (503, {"error": {"code": -32000}}, "JSON-RPC error -32000"),
        (503, None, "HTTP 503"),
        (200, None, "no JSON-RPC answer"),
        (200, ["result"], "no JSON-RPC answer"),
    ],
)
def test_a_failure_is_told_by_its_form(status: int, message: Any, found: str | None) -> None:
    assert failure(status, message) == found


@pytest.mark.parametrize(
    ("failures", "recovered_s"),
    [
        ([None, None, None], 0.0),
        (["isError", None, None], 1.0),
        ([None, "isError", None], 2.0),  # one good answer before a failure is no recovery
        ([None, None, "isError"], None),
        ([], None),
    ],
)
def test_recovery_is_the_first_call_after_which_none_failed(
    failures: list[str | None], recovered_s: float | None
) -> None:
    calls = [Outcome(10.0 + at, 0.1, failed) for at, failed in enumerate(failures)]
    before = [Outcome(9.0, 0.1, None)]
    assert recovery_s([*reversed(calls), *before], 10.0) == recovered_s


def test_ratios_are_made_within_a_round() -> None:
    """The second round met a machine half as quick; medians of both alone would say 15 / 1.5."""

    def of(cpu_us: float, rate: float) -> dict[str, float]:
        return {"calls/s": rate, "CPU us": cpu_us, "paced CPU us": 2 * cpu_us, "p50 ms": 1.0}

    rounds = [
        {"raw": of(1, 100), "peer": of(10, 10)},
        {"raw": of(2, 50), "peer": of(20, 5)},
        {"raw": of(1, 100), "peer": of(30, 10)},
    ]
    found = row("peer", "raw", rounds)
    assert (found[ALL], found[PACED], found["CPU us"], found["calls/s max / min"]) == (
        10,
        10,
        20,
        2,
    )


@pytest.mark.parametrize("file", ["rmcp.rs", "go_sdk.go", "ts_sdk.mjs"])
def test_every_source_pins_its_packages(file: str) -> None:
    found = pins((SERVERS / file).read_text())
    assert found and all(version.count(".") == 2 for _, version, _ in found)


def test_features_are_read_from_a_pin() -> None:
    found = pins("// a\n// pinned: a@1.2.3[x,y-z] @b/c@4.5.6\nuse d@7.8.9;")
    assert found == [("a", "1.2.3", ["x", "y-z"]), ("@b/c", "4.5.6", [])]


async def _sdk(start: Starter, _: int) -> Running:
    return await start.server((sys.executable, SERVERS / "python_sdk.py"), ("sdk",))


@pytest.mark.slow
async def test_the_bench_runs(tmp_path: Path) -> None:
    """Two servers without any installation, and every scenario for part of a second."""
    raw, times = replace(bare(), name="raw"), Times(1, 0.1, 0.4, 0.15, 3, 100)
    sdk = Peer("Python SDK server", "", _sdk)
    found = await compare(raw, bare(), [sdk], bare, tmp_path / "bench", times)
    assert list(found["systems"]) == ["raw", "Python SDK server"]
    for figures in found["systems"].values():
        assert figures["calls/s"] > 0 and figures[ALL] > 0 and figures["paced failures"] == 0
    (left,) = found["faults"].values()
    assert left[LIST]["tools listed"] == times.tools
    assert left[SLOW]["failed"] == left[KILLED]["failed before"] == {}
    # Those that were sent before the restart; it may answer a little before it is known to be back.
    assert sum(left[KILLED]["failed"].values()) >= PACE_PER_S * 2 * times.killed_part_s
    assert list(left[POISONED].values()) == [True, True, True, False]

"""The page of the comparison is made from what was measured."""

from __future__ import annotations

import json
import re
from typing import Any

from .page import FOLDER, bars, render


def measured() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "peers.json").read_text())
    return found


def test_the_committed_page_is_rendered_from_the_committed_measurements() -> None:
    """`python -m tests.bench.peers page` was run after the last change."""
    for name, text in render(measured()).items():
        assert (FOLDER / name).read_text() == text, name


def test_tables_are_well_formed_also_where_a_gateway_did_not_start() -> None:
    """All lines of a table have as many cells as its header, and the reason is named."""
    found = measured()
    for faults in found["faults"].values():
        faults["killed"] = {"not measured": "RuntimeError: it ended"}
    page = render(found)["peers.md"]
    assert "RuntimeError: it ended" in page
    tables = re.findall(r"(?:^\|.*\|$\n?)+", page, re.M)
    assert len(tables) >= 7
    for table in tables:
        assert len({line.count("|") for line in table.strip().splitlines()}) == 1


def test_a_bar_on_an_absent_system_is_not_measured() -> None:
    found = measured()
    names = {bar.name for bar in bars(found) if bar.value is not None}
    for absent in ("Envoy mcp_router", "Go SDK server", "rmcp server (Rust)"):
        del found["systems"][absent]
    left = {bar.name for bar in bars(found) if bar.value is not None}
    assert names - left == {
        "attached: calls/s / Envoy's",
        "attached: CPU without the upstream's",
        "own tool: calls/s / the Go SDK server's",
    }

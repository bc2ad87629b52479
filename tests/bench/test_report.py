"""The page about performance is made from the measurements."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from searchbus_cli.plan import KINDS, costs

from .bars import BARS
from .report import MEASUREMENTS, PAGE, SIZE, merged, render, table_of

MACHINE = {"date": "2026-01-02", "processor": "Abacus", "cores": 2, "versions": "Python 3.11"}
RESULTS = {
    "machine": MACHINE,
    "auth": {"warm token CPU us": 50.0},
    "toolindex": {
        "1,000 tools: callers p50 ms": 1.5,
        "1,000 tools: callers p99 ms": 9.0,
        "10,000 tools: callers p50 ms": 2.5,
        "growth": 1.67,
    },
    "tracing": {"added share of p50": 0.01, "calls": 12345},
}


@pytest.fixture
def files() -> dict[str, str]:
    return render(merged({}, RESULTS))


def test_charts_are_svg_with_a_bar_for_each_size(files: dict[str, str]) -> None:
    charts = {name: text for name, text in files.items() if name.endswith(".svg")}
    assert list(charts) == ["performance/toolindex-size.svg"]
    root = ElementTree.fromstring(charts["performance/toolindex-size.svg"])
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    labels = {element.text for element in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"1,000 tools, callers", "1.5 to 9", "2.5"} <= labels


def test_tables_are_well_formed(files: dict[str, str]) -> None:
    """All lines of a table have as many cells as its header."""
    tables = re.findall(r"(?:^\|.*\|$\n?)+", files["performance.md"], re.M)
    assert len(tables) >= 4
    for table in tables:
        header, rule, *rows = table.strip().splitlines()
        assert re.fullmatch(r"\|( --[-:] \|)+", rule)
        assert rows
        assert {line.count("|") for line in (header, rule, *rows)} == {header.count("|")}


def test_page_has_the_measurements(files: dict[str, str]) -> None:
    page = files["performance.md"]
    assert "| measurement | 1,000 tools | 10,000 tools |" in page
    assert "| callers p99 ms | 9 |  |" in page
    assert "| calls | 12,345 |" in page
    assert "Abacus, 2 cores" in page


def test_page_says_what_is_missed_and_not_measured(files: dict[str, str]) -> None:
    page = files["performance.md"]
    assert "| auth: warm token CPU us | 50 | <= 40 | **missed** |" in page
    assert "| toolindex: 10,000 tools: callers p99 ms | not measured | <= 40 |  |" in page
    absent = ", ".join(sorted(set(BARS) - set(RESULTS)))
    assert f"Not measured yet: {absent}." in page


def test_page_without_any_measurement_is_complete() -> None:
    files = render({})
    assert list(files) == ["performance.md"]
    assert "## How it is measured" in files["performance.md"]


def test_a_bench_that_did_not_run_keeps_its_results() -> None:
    known = merged({}, RESULTS)
    later = {**MACHINE, "date": "2026-03-04"}
    benches = merged(known, {"machine": later, "tracing": {"added share of p50": 0.02}})
    assert known["auth"] == benches["auth"]
    assert {"machine": later, "values": {"added share of p50": 0.02}} == benches["tracing"]


def test_older_results_do_not_replace_newer_ones() -> None:
    known = merged({}, RESULTS)
    earlier = {**MACHINE, "date": "2025-12-31T23:59Z"}
    assert merged(known, {"machine": earlier, "tracing": {"calls": 1}}) == known


def test_the_committed_page_is_rendered_from_the_committed_measurements() -> None:
    """`python -m tests.bench.report` was run after the last change."""
    for name, text in render(json.loads(MEASUREMENTS.read_text())).items():
        assert (PAGE.parent / name).read_text() == text, name


def test_names_of_bars_by_size_are_read_by_the_page() -> None:
    assert any(SIZE.match(name) for name in BARS["toolindex"])


def test_the_table_has_each_kind_of_request_and_what_the_plan_reads():
    """In the form that `searchbus plan` reads; processes of one service are added."""
    table = costs()
    assert all("edge" in table[name] for name in KINDS.values())
    values = {name: {**table[name], "ddg-2": 1.0} for name in KINDS.values()}
    found = table_of({"sizing": {"values": {**table, **values}}})
    assert found.keys() == table.keys()
    assert found[KINDS["list"]]["ddg"] == 1.0
    assert table_of({}) is None

"""Charts on a logarithmic scale."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from .charts import Row, chart, number

RECT = "{http://www.w3.org/2000/svg}rect"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.0, "0"), (0.04217, "0.0422"), (1.0, "1"), (9.996, "10"), (123.4, "123"),
     (24213.5, "24,200"), (24213, "24,213"), (-0.5, "-0.5")],
)  # fmt: skip
def test_number_has_three_digits(value: float, text: str) -> None:
    assert text == number(value)


def test_bars_grow_by_the_same_length_for_the_same_factor() -> None:
    svg = chart("T", "ms", [Row("a", 1.0), Row("b", 10.0), Row("c", 100.0)])
    _, *bars = ElementTree.fromstring(svg).iter(RECT)
    a, b, c = (float(bar.get("width", "")) for bar in bars)
    assert 0 < a < b < c
    assert c - b == pytest.approx(b - a)


@pytest.mark.parametrize("rows", [[], [Row("a", 0.0)], [Row("a", 1.0, high=-1.0)]])
def test_only_positive_figures_have_a_place(rows: list[Row]) -> None:
    with pytest.raises(ValueError, match="positive"):
        chart("T", "ms", rows)

"""Bar charts as SVG, on a logarithmic scale, in the light or dark colours that the reader's screen asks for.

    svg = chart("Calls a second", "calls/s", [Row("searchbus", 2000.0, own=True), Row("other", 20.0)])

A row with `high` is drawn as a line from `value` to `high`, e.g. from the median to the 99th
percentile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_WIDTH, _LABELS, _VALUES = 860, 300, 110
_ROW, _TOP, _BOTTOM = 26, 56, 30
_STYLE = """<style>
text { fill: #24292f } .page { fill: #ffffff } .grid { stroke: #e3e6ea }
.own { fill: #1b62b5 } line.own { stroke: #1b62b5 } .other { fill: #9aa5b1 } line.other { stroke: #9aa5b1 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .page { fill: #0d1117 } .grid { stroke: #30363d }
.own { fill: #58a6ff } line.own { stroke: #58a6ff } .other { fill: #6e7681 } line.other { stroke: #6e7681 }
}
</style>"""


@dataclass(frozen=True)
class Row:
    """One system: its label, a positive value, and whether it is drawn in the stronger colour."""

    label: str
    value: float
    high: float | None = None
    own: bool = False


def number(value: float) -> str:
    """Three significant digits, thousands separated: 0.042, 1.5, 24,200. An int stays exact."""
    if isinstance(value, int) or value == 0:
        return f"{value:,.0f}"
    digits = 2 - math.floor(math.log10(abs(value)))
    text = f"{round(value, digits):,.{max(0, digits)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def chart(title: str, unit: str, rows: Sequence[Row]) -> str:
    """An SVG document with one bar a row.

    Raises:
        ValueError: there is no row, or a value is not positive.
    """
    values = [f for row in rows for f in (row.value, row.high) if f is not None]
    if not values or min(values) <= 0:
        raise ValueError("a logarithmic scale needs positive values")
    low = math.floor(math.log10(min(values)))
    if not any(row.high for row in rows) and 10**low == min(values):
        low -= 1  # the shortest bar would have no length
    high = max(math.ceil(math.log10(max(values))), low + 1)
    height = _TOP + _ROW * len(rows) + _BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'font-family="system-ui, sans-serif" font-size="13" role="img">',
        f"<title>{escape(title)}</title>",
        _STYLE,
        f'<rect class="page" width="{_WIDTH}" height="{height}"/>',
        _label(12, 24, f"{title} ({unit}, logarithmic scale)", weight="bold"),
        *_grid(low, high, height),
    ]
    for index, row in enumerate(rows):
        lines += _row(row, _TOP + _ROW * index, low, high)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _x(value: float, low: int, high: int) -> float:
    """The place of a value on the axis from 10**low to 10**high."""
    share = (math.log10(value) - low) / (high - low)
    return round(_LABELS + share * (_WIDTH - _LABELS - _VALUES), 1)


def _grid(low: int, high: int, height: int) -> Iterator[str]:
    for power in range(low, high + 1):
        x, bottom = _x(10**power, low, high), height - _BOTTOM
        yield f'<line x1="{x}" x2="{x}" y1="{_TOP - 8}" y2="{bottom}" class="grid"/>'
        yield _label(x, bottom + 18, number(10**power), anchor="middle")


def _row(row: Row, y: int, low: int, high: int) -> Iterator[str]:
    kind = "own" if row.own else "other"
    middle = y + _ROW // 2
    start, end = _LABELS, _x(row.value, low, high)
    text = number(row.value)
    yield _label(_LABELS - 10, middle + 4, row.label, anchor="end", weight="bold" * row.own)
    if row.high is None:
        yield f'<rect x="{start}" y="{y + 5}" width="{end - start:.1f}" height="16" class="{kind}"/>'
    else:
        start, end = end, _x(row.high, low, high)
        text = f"{text} to {number(row.high)}"
        yield (
            f'<line x1="{start}" x2="{end}" y1="{middle}" y2="{middle}" class="{kind}" '
            'stroke-width="4"/>'
        )
        for x in (start, end):
            yield f'<circle cx="{x}" cy="{middle}" r="6" class="{kind}"/>'
    yield _label(end + 12, middle + 4, text)


def _label(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "") -> str:
    bold = f' font-weight="{weight}"' if weight else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{bold}>{escape(text)}</text>'

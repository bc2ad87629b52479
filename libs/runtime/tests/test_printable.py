"""Control characters are shown as escapes."""

from __future__ import annotations

import pytest

from searchbus_runtime.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é ✓ \t\n", "plain é ✓ \t\n"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\x9b31m\x7f", r"\x9b31m\x7f"),
        ("a\rb\x07", r"a\x0db\x07"),
        ("\u202eevil", r"\u202eevil"),
    ],
)
def test_controls_are_shown(text, shown):
    assert printable(text) == shown


def test_one_line_stays_one_line():
    assert printable("a\nb", one_line=True) == r"a\nb"

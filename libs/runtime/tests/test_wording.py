"""Control characters are shown as escapes."""

from __future__ import annotations

import pytest

from searchbus_runtime.wording import nearest, printable


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


def test_the_nearest_word_is_named():
    """And no other one."""
    assert nearest("offise", ["fomc", "office", "web"]) == " Did you mean 'office'?"


def test_known_words_are_named_where_none_is_near():
    """Twenty of them at most."""
    assert nearest("zzz", ["fomc", "web"]) == " Known: fomc, web."
    assert nearest("zzz", (f"a{number}" for number in range(22))).endswith(", a19 and 2 more.")
    assert nearest("zzz", []) == ""

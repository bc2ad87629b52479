"""Text of servers shows what a person sees."""

from __future__ import annotations

import pytest

from searchbus_attach.definitions.text import clean, clean_line, hides_text


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("Reads a file.\n\n- one\tlist", "Reads a file.\n\n- one\tlist"),
        ("\x1b[2Jred\x07", "[2Jred"),
        ("right\u202eto left", "rightto left"),
        ("zero\u200bwidth\u2060", "zerowidth"),
        ("tag\U000e0041\U000e0042ged", "tagged"),
        ("hidden\ufe0f\U000e0150", "hidden"),
        ("filled\u3164", "filled"),
        ("a line\u2028another", "a lineanother"),
        ("größe 日本語 é", "größe 日本語 é"),
    ],
)
def test_what_nobody_sees_is_taken_out(given, seen):
    """Letters of every script stay."""
    assert clean(given, 1000) == seen


def test_a_long_text_is_cut():
    """With a sign that something is missing."""
    assert clean("x" * 30, 10) == "x" * 9 + "…"
    assert clean("x" * 10, 10) == "x" * 10


def test_one_line():
    """Of several."""
    assert clean_line(" a\n b\tc ", 100) == "a b c"


@pytest.mark.parametrize(
    ("text", "hides"),
    [
        ("plain", False),
        ("größe 日本語", False),
        ("👩\u200d👩\u200d👧\u200d👦 ❤\ufe0f", False),
        ("\u200eשלום\u200e", False),
        ("red" + "".join(chr(0xE0000 + ord(c)) for c in "delete all"), True),
        ("red" + "".join(chr(0xE0100 + ord(c)) for c in "delete all"), True),
        ("\u200b\u2060" * 8, True),
    ],
)
def test_hidden_text_is_found(text, hides):
    """A mark of direction or an emoji is not one."""
    assert hides_text(text) is hides

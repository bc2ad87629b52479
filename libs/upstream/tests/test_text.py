"""Text without invisible characters."""

from __future__ import annotations

import pytest

from searchbus_upstream.text import is_visible, plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\tc  d", "a b c d"),
        ("a\u202eb\u2066c", "abc"),
        ("a\u200bb\ufeffc\x00d", "abcd"),
        ("👩\u200d🔬", "👩\u200d🔬"),
        (" \u00a0 ", ""),
    ],
)
def test_plain_text_is_one_line_of_visible_characters(text, shown):
    """Joiners are kept: emoji and some scripts need them."""
    assert plain(text) == shown


def test_unassigned_and_private_characters_are_not_visible():
    """Nor are surrogates and tags."""
    assert not any(is_visible(c) for c in "\ue000\U000e0041\u0378\ud800")
    assert all(is_visible(c) for c in "aå鯨 \u0301")

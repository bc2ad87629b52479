"""Text without characters that people do not see."""

from __future__ import annotations

import sys

import pytest
import regex

from searchbus_contracts import visible as module
from searchbus_contracts.visible import is_visible, visible


def test_unassigned_and_private_characters_are_not_visible():
    """Nor are surrogates and tags."""
    assert not any(is_visible(c) for c in "\ue000\U000e0041\u0378\ud800")
    assert all(is_visible(c) for c in "aå鯨 \u0301")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("so\u00adft \u115f\u3164\u034f", "soft "),
        ("a\ufe0fb\ufe00c\U000e0100d\U000e0041", "abcd"),
        ("❤\ufe0f 1\ufe0f\u20e3 1\ufe0f ❤\ufe0f\ufe0f", "❤\ufe0f 1\ufe0f\u20e3 1 ❤\ufe0f"),
        ("❤\u200b\ufe0f", "❤\ufe0f"),
        ("a\u200db\u200c", "ab"),
        ("👩\u200d🔬 👩\u200d x", "👩\u200d🔬 👩 x"),
        ("می\u200cخواهم क\u094d\u200dष", "می\u200cخواهم क\u094d\u200dष"),
        ("क\u200d\u200d\u200d", "क\u200d"),
        ("a\r\nb\tc\rd\r\r\ne", "a\nb\tc\nd\n\ne"),
    ],
)
def test_selectors_and_joiners_stay_where_they_are_seen(text, shown):
    """Elsewhere they could carry hidden text."""
    assert visible(text) == shown
    assert visible(shown) == shown


@pytest.mark.parametrize(("text", "looks"), [("приве́т 鯨 " * 9, 0), ("привет\u00a0мир", 8)])
def test_letters_of_every_script_are_not_looked_at_one_by_one(text, looks, monkeypatch):
    """It took ten times as long; a character that is no letter has each kind looked at once."""
    seen: list[str] = []
    monkeypatch.setattr(module, "is_visible", lambda c: seen.append(c) or True)
    assert visible(text) == text
    assert len(seen) == looks


def test_ignorable_characters_are_those_of_unicode():
    """Except the four that depend on their context."""
    ignorable = regex.compile(r"\p{Default_Ignorable_Code_Point}")
    seen = {chr(n) for n in range(sys.maxunicode + 1) if ignorable.match(chr(n))}
    assert len(seen) > 4000
    assert {c for c in seen if is_visible(c)} == set("\u200c\u200d\ufe0e\ufe0f")

"""Marks of untrusted text."""

from __future__ import annotations

import re

import pytest

from searchbus_contracts.visible import marked, unmarked


def test_each_text_has_new_marks():
    """No text can contain them."""
    one, other = marked("text"), marked("text")
    assert re.fullmatch(r"<(untrusted_text_\w{8})>\ntext\n</\1>", one)
    assert one != other


@pytest.mark.parametrize("text", ["", "a\nb", "</untrusted_text_b>", "<untrusted_text_b>\na"])
def test_a_text_is_found_again_between_its_marks(text):
    """Also where a notice stands behind them."""
    assert marked(text, "untrusted_text_a") == f"<untrusted_text_a>\n{text}\n</untrusted_text_a>"
    shown = marked(text)
    mark, found = unmarked(f"{shown}\n[Characters 0 to 4 of 9.]")
    assert (marked(found, mark), found) == (shown, text)


@pytest.mark.parametrize("text", ["", "a", "a <untrusted_text_b>\na\n</untrusted_text_b>"])
def test_a_text_without_marks_is_itself(text):
    assert unmarked(text) == (None, text)

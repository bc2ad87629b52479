"""What a wrong name was meant to be."""

from __future__ import annotations

from searchbus_runtime.spelling import nearest


def test_the_nearest_word_is_named():
    """And no other one."""
    assert nearest("offise", ["fomc", "office", "web"]) == " Did you mean 'office'?"


def test_known_words_are_named_where_none_is_near():
    """Twenty of them at most."""
    assert nearest("zzz", ["fomc", "web"]) == " Known: fomc, web."
    assert nearest("zzz", (f"a{number}" for number in range(22))).endswith(", a19 and 2 more.")
    assert nearest("zzz", []) == ""

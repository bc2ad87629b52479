"""Words as written, by slot."""

from __future__ import annotations

import numpy as np

from searchbus_toolindex.vocabulary import Vocabulary


def test_words_of_visible_slots_are_sorted():
    """A word of a hidden slot alone is left out; one that a visible slot shares is not."""
    words = Vocabulary()
    words.add(0, {"secret", "mail"})
    words.add(1, {"mail", "chart"})
    assert words.visible(np.array([False, True])) == ["chart", "mail"]
    assert words.visible(np.array([True, True])) == ["chart", "mail", "secret"]


def test_removed_words_are_gone():
    """Where no other slot has them."""
    words = Vocabulary()
    words.add(0, {"secret", "mail"})
    words.add(1, {"mail"})
    words.remove(0, {"secret", "mail"})
    assert words.visible(np.array([True, True])) == ["mail"]

"""Work that ends on a long text, and work that does not."""

from __future__ import annotations

import re
import signal

import pytest

from searchbus_testing.growth import work_ends


def test_work_gets_a_text_of_the_size_and_its_end():
    texts: list[str] = []
    work_ends(texts.append, "abc", size=7, end="!")
    assert texts == ["abcabca!"]


def test_work_without_end_is_given_up_also_inside_a_pattern():
    """This one tries each way to divide the text: more than there are atoms."""
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(AssertionError, match="no end is near"):
        work_ends(re.compile("(a+)+$").match, "a", size=1000, end="b", give_up_s=0.2)
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0

"""The alignment is the one with the fewest edits, as a table of all distances shows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from searchbus_passages.alignment import Edit, edits, nearest_span

SMALL = st.text("ab ", min_size=1, max_size=8)


def distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        following = [i]
        for j, y in enumerate(b, 1):
            following.append(min(row[j] + 1, following[-1] + 1, row[j - 1] + (x != y)))
        row = following
    return row[-1]


@given(SMALL, st.text("ab ", max_size=12))
def test_nearest_part_has_the_least_distance_of_all_parts(pattern, text):
    """Compared with every part."""
    found, start, end = nearest_span(pattern, text)
    parts = [text[i:j] for i in range(len(text) + 1) for j in range(i, len(text) + 1)]
    assert found == min(distance(pattern, part) for part in parts)
    assert distance(pattern, text[start:end]) == found


@given(SMALL, st.text("ab ", max_size=12))
def test_edits_make_the_pattern_the_text(pattern, text):
    """What lies between them is equal."""
    made, at = "", 0
    for edit in edits(pattern, text):
        made += pattern[at : edit.pattern_start] + text[edit.text_start : edit.text_end]
        at = edit.pattern_end
    assert made + pattern[at:] == text


def test_edits_are_whole_words():
    """Neighbours are one edit."""
    assert edits("the rate was raised", "the rate was lowered") == [Edit(13, 19, 13, 20)]
    assert edits("one two three", "one 2 3") == [Edit(4, 13, 4, 7)]
    assert edits("same", "same") == []

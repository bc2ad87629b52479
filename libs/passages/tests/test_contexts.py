"""What stands above a sentence."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from searchbus_passages import contexts, sentences


def above(text: str) -> dict[str, list[str]]:
    spans = list(sentences(text))
    return {
        text[span.start : span.end]: [text[s.start : s.end] for s in found]
        for span, found in zip(spans, contexts(text, spans), strict=True)
    }


def test_row_has_its_header_and_its_heading():
    """Each row of the table; the next paragraph has only the heading."""
    found = above("## Plans\n\n| Plan | Price |\n|---|---|\n| Wren | 3 |\n| Crow | 9 |\n\nNo more.")
    assert found["| Crow | 9 |"] == ["## Plans", "| Plan | Price |"]
    assert found["| Plan | Price |"] == found["No more."] == ["## Plans"]


def test_item_has_the_lead_of_its_list():
    """Also the second sentence of an item; what follows the list has none."""
    found = above("Bring with you:\n\n- A lamp. It must be new.\n- Rope.\n\nThen go.")
    assert found["- Rope."] == found["It must be new."] == ["Bring with you:"]
    assert found["Then go."] == []


def test_new_heading_replaces_the_one_before():
    """And ends a list."""
    found = above("# One\n\nFirst.\n\n# Two\n\nSecond.")
    assert (found["First."], found["Second."]) == (["# One"], ["# Two"])


@given(st.text("a#|-1. \n", max_size=200))
def test_context_stands_before_its_sentence(text):
    """In any text, and never in the sentence itself."""
    spans = list(sentences(text))
    found = contexts(text, spans)
    assert len(found) == len(spans)
    for span, own in zip(spans, found, strict=True):
        assert all(s.end <= span.start for s in own)
        assert len(own) <= 2


def test_longest_texts_take_steps_in_proportion_to_their_length():
    """One endless line, and a table of ten thousand columns: every part is read a few times."""

    class Counting(str):
        read = 0

        def __getitem__(self, key):
            Counting.read += len(part := str.__getitem__(self, key))
            return part

    def read(text: str) -> int:
        Counting.read = 0
        counted = Counting(text)
        contexts(counted, list(sentences(text)))
        return Counting.read

    row = "| a " * 10_000 + "|\n"
    for text in ("word " * 20_000, row * 3, "- a\n" * 20_000):
        assert read(text) <= len(text)

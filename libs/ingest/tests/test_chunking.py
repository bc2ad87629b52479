"""Cutting: nothing is lost or doubled; sections and sentences are respected."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from searchbus_ingest.chunking import cut

PARAGRAPH = (
    "Participants noted that spending had grown at a solid pace in recent months and that the "
    "labor market had remained tight by any measure that the staff reviewed for the meeting. "
)


@given(st.text(max_size=3000), st.booleans())
def test_every_visible_character_lies_in_exactly_one_chunk(text, markdown):
    """Chunks are in order, do not overlap, and leave out white space only."""
    position = 0
    for chunk in cut(text, markdown=markdown):
        assert position <= chunk.start < chunk.end <= len(text)
        assert not text[position : chunk.start].strip()
        position = chunk.end
    assert not text[position:].strip()


def test_chunks_end_at_sentences():
    """Abbreviations and initials do not end one."""
    sentence = "Mr. J. Powell of the U.S. Board said that approx. 2.5 percent was near. "
    text = sentence * 60
    for chunk in cut(text):
        passage = text[chunk.start : chunk.end]
        assert passage.startswith("Mr. J.")
        assert passage.endswith("near.")


def test_passages_are_of_even_length():
    """A long section is cut into passages near the target, without a short rest at the end."""
    text = PARAGRAPH * 40
    lengths = [chunk.end - chunk.start for chunk in cut(text)]
    assert min(lengths) > 500
    assert max(lengths) <= 1600


def test_word_without_an_end_is_broken():
    """A text without spaces still gives bounded chunks."""
    assert max(c.end - c.start for c in cut("x" * 20_000)) <= 1600

"""The parts of a page that speak to a query."""

from __future__ import annotations

from searchbus_edge.interfaces.compat.chunks import MAX_CHUNK_CHARS, chunks, chunks_of_page
from searchbus_edge.interfaces.compat.web_tools import Page

TEXT = """Whales are large animals of the sea.

The songs of blue whales travel for hundreds of miles through the ocean.

Ships are built of steel in many harbours of the world.
"""


def test_chunk_with_most_words_is_first():
    """Parts without a word of the query are left out."""
    assert chunks("songs of whales", TEXT, most=3) == [
        "The songs of blue whales travel for hundreds of miles through the ocean.",
        "Whales are large animals of the sea.",
    ]
    assert len(chunks("songs of whales", TEXT, most=1)) == 1


def test_text_beside_the_point_gives_its_beginning():
    """A page that was asked for is never answered with nothing."""
    assert chunks("volcanoes", TEXT, most=3) == ["Whales are large animals of the sea."]
    assert chunks("volcanoes", "", most=3) == []


def test_no_chunk_is_longer_than_its_limit():
    """Neither of many sentences nor of one."""
    sentences = "The whale sings a song of the sea every night. " * 100
    endless = "whale " * 1000
    for text in (sentences, endless):
        found = chunks("whale", text, most=3)
        assert found
        assert all(len(chunk) <= MAX_CHUNK_CHARS for chunk in found)


def test_many_short_paragraphs_are_compared_in_part():
    """Comparing all of them with each other would take the square of their number."""
    text = "\n\n".join(f"whale {n}" for n in range(20_000))
    assert len(chunks("whale", text, most=3)) <= 3


def test_chunks_stand_between_the_marks_of_their_page():
    """Joined as Tavily joins them."""
    page = Page("u", "ok", f"<untrusted_text_ab>\n{TEXT}\n</untrusted_text_ab>\n[A notice.]")
    found = chunks_of_page("songs of whales", page, most=2)
    opening, text, closing = found.splitlines()
    assert (opening, closing) == ("<untrusted_text_ab>", "</untrusted_text_ab>")
    assert text.count(" [...] ") == 1
    assert "notice" not in found


def test_page_without_marks_gets_them():
    """Its text is of strangers all the same."""
    assert chunks_of_page("whales", Page("u", "ok", TEXT), most=1).startswith("<untrusted_text_")
    assert chunks_of_page("whales", Page("u", "ok", ""), most=1) == ""

"""The passages of a source that answer a question."""

from __future__ import annotations

from searchbus_edge.composites.passages import MAX_PASSAGE_CHARS, pick_passages

WHALES = "Whales sing long songs in the deep sea every winter."
BOATS = "Boats carry many heavy things over the wide blue sea."
OTHER = "Nothing here has any word that would help somebody today."


def test_paragraphs_with_shared_words_follow_the_snippet():
    """Best first; those without a shared word are left out."""
    text = f"{OTHER}\n\n{BOATS}\n\n{WHALES}"
    picked = pick_passages("Which whales sing in the sea?", text, "Found this.")
    assert picked == ["Found this.", WHALES, BOATS]


def test_text_without_a_match_leaves_the_snippet():
    """Or nothing."""
    assert pick_passages("zebra", WHALES, " snippet ") == ["snippet"]
    assert pick_passages("zebra", WHALES, "") == []
    assert pick_passages("", "", "") == []


def test_passages_do_not_repeat_each_other():
    """A snippet is often part of the text."""
    assert pick_passages("whales", WHALES, WHALES[:20]) == [WHALES[:20]]


def test_passages_of_marked_text_are_cut_and_marked():
    """Each has the marks of its text: the reader must not take it for an instruction."""
    text = f"<untrusted_text_ab>{'whales sing songs of the very deep blue sea ' * 100}</untrusted_text_ab>"
    (passage,) = pick_passages("whales", text, "")
    inner = passage.removeprefix("<untrusted_text_ab>\n").removesuffix("\n</untrusted_text_ab>")
    assert len(inner) == MAX_PASSAGE_CHARS
    assert len(passage) == len(inner) + len("<untrusted_text_ab>\n\n</untrusted_text_ab>")
    assert "untrusted" not in inner


def test_snippet_of_a_marked_page_is_marked_too():
    """It comes from the same page."""
    picked = pick_passages("whales", f"<untrusted_text_x>\n{WHALES}\n</untrusted_text_x>", "About.")
    assert picked == [
        "<untrusted_text_x>\nAbout.\n</untrusted_text_x>",
        f"<untrusted_text_x>\n{WHALES}\n</untrusted_text_x>",
    ]


def test_short_paragraphs_are_no_passages():
    """Headings and navigation."""
    assert pick_passages("whales", "Whales\n\nAbout whales", "") == []

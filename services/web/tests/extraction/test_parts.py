"""Parts of pages: outline, highlights, text fragments."""

from __future__ import annotations

import pytest

from searchbus_contracts import Fault
from searchbus_web.extraction.highlights import MOST, highlights, text_fragment
from searchbus_web.extraction.outline import Outline, read_range

TEXT = """# Whales

They are mammals.

## Songs

Blue whales sing in low notes.

The songs travel far.

### History

Recorded since 1960.

## Food

Krill, mostly."""


def test_sections_and_paragraphs_are_named_by_headings_and_numbers():
    """A section has its subsections; a part of a name is enough."""
    outline = Outline(TEXT)
    assert outline.paragraphs == 9
    assert [(h.level, h.text, h.paragraph) for h in outline.headings] == [
        (1, "Whales", 1), (2, "Songs", 3), (3, "History", 6), (2, "Food", 8),
    ]  # fmt: skip

    def text(part):
        return part and TEXT[slice(*part)]

    assert (
        text(outline.section("songs")) == TEXT[TEXT.index("## Songs") : TEXT.index("\n\n## Food")]
    )
    assert text(outline.section("hist")) == "### History\n\nRecorded since 1960."
    assert text(outline.section("Whales")) == TEXT
    assert outline.section("Prices") is None
    assert text(outline.range(2, 2)) == "They are mammals."
    assert text(outline.range(9, 99)) == "Krill, mostly."
    assert outline.range(10, 12) is None
    assert [outline.number_at(TEXT.index(word)) for word in ("Whales", "mammals", "Krill")] == [
        1,
        2,
        9,
    ]
    assert Outline("").paragraphs == 0


@pytest.mark.parametrize(("given", "read"), [("4", (4, 4)), ("3-7", (3, 7)), ("2-", (2, 10**6))])
def test_range_of_paragraphs(given, read):
    """One, some, or to the end."""
    assert read_range(given) == read


@pytest.mark.parametrize("given", ["0", "7-3"])
def test_wrong_range_is_refused(given):
    """Before a page is fetched."""
    with pytest.raises(Fault):
        read_range(given)


def test_best_sentences_come_first():
    """Without a word of the query there are none."""
    found = highlights(TEXT, "Which songs do blue whales sing?")
    assert TEXT[found[0].start : found[0].end].strip() == "Blue whales sing in low notes."
    assert found[0].score == 1
    assert highlights(TEXT, "zebra") == []
    assert len(highlights("Whales sing. " * 500, "whales")) == MOST
    assert highlights("鯨の歌は海を渡る。犬は走る。", "鯨の歌")[0].start == 0


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("Blue whales sing.", "Blue%20whales%20sing."),
        ("## A **bold**, well-known `name` [link](http://a.org/)", "A%20bold%2C%20well%2Dknown%20name%20link"),
        ("one two three four five six seven eight nine ten eleven twelve & last",
         "one%20two%20three%20four%20five%20six,eight%20nine%20ten%20eleven%20twelve%20%26%20last"),
        ("a | b | c", None), ("", None),
    ],
)  # fmt: skip
def test_text_fragment_has_the_words_that_people_see(text, fragment):
    """First and last words of a long sentence; dashes, commas and ampersands are encoded."""
    found = text_fragment("https://a.org/x#part", text)
    if fragment and "," in fragment:
        start, _, _ = fragment.partition(",")
        assert found.startswith(f"https://a.org/x#:~:text={start},")
        assert found.endswith("twelve%20%26%20last")
    else:
        assert found == (fragment and f"https://a.org/x#:~:text={fragment}")

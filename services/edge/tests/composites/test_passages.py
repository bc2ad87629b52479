"""Passages that answer a question, by words and by meaning."""

from __future__ import annotations

import pytest

from searchbus_bus import Directory
from searchbus_contracts.retrieval import MAX_COMPARED, MAX_COMPARED_CHARS
from searchbus_edge.composites.passages import (
    MAX_CANDIDATES,
    MAX_PASSAGE_CHARS,
    Similarity,
    candidates,
    chosen,
    distinct,
    from_page,
)

from .conftest import OPTIONS

WHALES = "Whales sing long songs in the deep sea every winter."
BOATS = "A whale hears the boats that sing over the wide blue sea."
OTHER = "Nothing here has any word that would help somebody today."
DECISION = "The members agreed that the target range would be raised to 4-3/4 to 5 percent at once."


def test_paragraphs_of_a_page_with_most_words_of_the_question():
    """In any form of the words; those with few of them are left out."""
    text = f"{OTHER}\n\n{BOATS}\n\n{WHALES}"
    assert from_page("Which whale sings songs?", text, "SourceHits this.") == [WHALES, BOATS]
    assert from_page("Which whale sings songs in winter?", text, "SourceHits this.") == [WHALES]


def test_meaning_and_words_decide_together():
    """A passage in other words answers, too; one that is far from the question does not."""
    found = candidates("Which whale sings songs?", f"{OTHER}\n\n{BOATS}\n\n{WHALES}")
    assert [candidate.text for candidate in found] == [WHALES, BOATS, OTHER]
    assert chosen(found, [0.72, 0.4, 0.75]) == [WHALES, OTHER]
    assert chosen(found, [0.7, 0.56, 0.5]) == [WHALES, BOATS]
    assert chosen(found, [0.4, 0.4, 0.4]) == []
    assert chosen(found) == [WHALES, BOATS]


def test_candidates_are_few():
    """Those with the most words; a page may have thousands."""
    rest = "\n\n".join(f"{OTHER} Number {number}." for number in range(100))
    found = candidates("Which whale sings songs?", f"{rest}\n\n{WHALES}")
    assert len(found) == MAX_CANDIDATES
    assert found[0].text == WHALES


def test_long_paragraph_is_cut_between_sentences():
    """A page may be a single one; its beginning is not its best part."""
    text = f"{' '.join([OTHER] * 40)} {WHALES} {' '.join([OTHER] * 40)}"
    (passage,) = from_page("whales", text)
    assert WHALES in passage
    assert len(passage) <= MAX_PASSAGE_CHARS


def test_page_beside_the_point_has_no_passages():
    """Nor has its snippet."""
    assert from_page("zebra", WHALES, "snippet") == []
    assert from_page("How many vacation days do employees have?", "On some days we met. " * 5) == []
    assert from_page("", "", "") == []


def test_snippet_is_a_passage_where_it_has_words_of_the_question():
    """Also of a page that could not be read."""
    assert from_page("zebra", "", " Zebras live in large herds. ") == [
        "Zebras live in large herds."
    ]


def test_question_in_a_script_without_spaces():
    """Its words are pairs of characters."""
    page = "\u9be8\u306f\u6d77\u306e\u4e2d\u3067\u6b4c\u3046\u3002"
    assert from_page("\u9be8\u306f\u6b4c\u3046\u304b", "", page) == [page]
    assert from_page("\u4f11\u6687\u306f\u4f55\u65e5", "", page) == []


def test_text_without_sentences_is_cut_between_words():
    """Each passage is a part of the page."""
    many = "whales sing songs of the very deep blue sea " * 100
    (passage,) = from_page("whales", many)
    assert MAX_PASSAGE_CHARS / 2 < len(passage) <= MAX_PASSAGE_CHARS
    assert passage in many


def test_short_paragraphs_are_no_passages():
    """Headings, footnote marks, and snippets that only repeat the question."""
    assert from_page("Which whales sing?", "", "All about: Which whales sing?, part 1") == []
    assert from_page("whales", "Whales\n\nAbout whales") == []


@pytest.mark.parametrize("separator", ["\n", " "])
def test_repeated_passages_are_given_once(separator):
    """Statements and minutes quote each other; white space and marks make no difference."""
    longer = f"At the end: {separator.join(DECISION.split())} Then they went home."
    marked = f"<untrusted_text_a>\n{WHALES}\n</untrusted_text_a>"
    assert distinct([DECISION, longer, WHALES, marked]) == [DECISION, WHALES]
    assert distinct([longer, OTHER], known=[DECISION]) == [OTHER]


@pytest.fixture
async def similarity(setup, bus):
    """Over the retrieval service of `setup`."""
    directory = Directory(bus)
    await directory.start()
    yield Similarity(bus, directory)
    await directory.close()


async def test_each_text_has_a_cosine(similarity, setup):
    """Of a long one the beginning is compared."""
    texts = ["near", "far", "x" * (MAX_COMPARED_CHARS + 1)]
    assert await similarity.cosines("q", texts, **OPTIONS) == [0.7, 0.3, 0.7]
    (request,) = setup[2].compared
    assert [len(text) for text in request.texts] == [4, 3, MAX_COMPARED_CHARS]


@pytest.mark.parametrize(("query", "count"), [("fail", 1), ("q", 0), ("q", MAX_COMPARED + 1)])
async def test_what_cannot_be_had_is_done_without(similarity, query, count):
    """A failure, no text, too many."""
    assert await similarity.cosines(query, ["near"] * count, **OPTIONS) is None


async def test_service_that_is_absent_is_not_asked(bus):
    """So that nothing waits for it."""
    directory = Directory(bus)
    await directory.start()
    assert await Similarity(bus, directory).cosines("q", ["near"], **OPTIONS) is None
    await directory.close()

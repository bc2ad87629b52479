"""Quotations in texts."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_passages.quotes import MAX_QUOTE_CHARS, Comparisons, Difference, find_quote

TEXT = (
    "\ufeffMinutes\r\n\r\nThe Committee decided to raise the target range for the federal funds rate to "
    "5\u20111/4 to 5\u20111/2 percent.\r\nInflation remains elevated \u2014 in caf\u00e9s, too. "
    "\u201cWe will keep at it,\u201d said the Chair. \U0001f350\n"
)  # fmt: skip
WORDS = (
    "rates",
    "pears",
    "Committee",
    "the",
    "of",
    "5\u20111/4",
    "e\u0301t\u00e9",
    "\U0001f350",
    "inflation",
)


def stands(place) -> str:
    return TEXT[place.start : place.end]


def test_quotation_that_stands_there_is_exact():
    """With the first of its places."""
    place = find_quote(TEXT, "Inflation remains elevated")
    assert (place.match, place.similarity, place.differences) == ("exact", 1.0, ())
    assert stands(place) == "Inflation remains elevated"


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("to 5-1/4 to 5-1/2 percent. Inflation", "to 5\u20111/4 to 5\u20111/2 percent.\r\nInflation"),
        ('"we will keep at it,"', "\u201cWe will keep at it,\u201d"),
        ("ELEVATED -\nin", "elevated \u2014 in"), ("minutes the committee", "Minutes\r\n\r\nThe Committee"),
        ("inf\u00adlation re\u200bmains", "Inflation remains"),
    ],
)  # fmt: skip
def test_spelling_of_dashes_quotes_spaces_and_case_makes_no_difference(quote, text):
    """The place is the text's own."""
    place = find_quote(TEXT, quote)
    assert (place.match, place.similarity) == ("equivalent", 1.0)
    assert stands(place) == text


def test_nearest_text_comes_with_its_differences():
    """In whole words, as both have them."""
    place = find_quote(
        TEXT, "The Committee decided to lower the target range for the fund rate to 5-1/4"
    )
    assert place.match == "nearest"
    assert stands(place) == TEXT[12 : TEXT.index(" to 5\u20111/2")]
    assert place.differences == (
        Difference("lower", "raise"),
        Difference("the fund", "the federal funds"),
    )
    assert 0.8 < place.similarity < 1


def test_word_of_another_spelling_is_found():
    """Also a short one."""
    place = find_quote(TEXT, "inflatoin")
    assert (place.match, stands(place)) == ("nearest", "Inflation")


@pytest.mark.parametrize("quote", ["zebras jump over quokkas", "\u9be8\u306e\u6b4c", "qqqq"])
def test_quotation_of_another_text_is_nowhere(quote):
    """Rather than at a place that has nothing to do with it."""
    assert find_quote(TEXT, quote).match == "none"


@pytest.mark.parametrize("quote", ["", " \n", "\u200b", "x" * (MAX_QUOTE_CHARS + 1)])
def test_quotation_that_cannot_be_compared_is_refused(quote):
    """Empty, or longer than the limit, which the message names."""
    with pytest.raises(ValueError, match=f"empty|{MAX_QUOTE_CHARS}"):
        find_quote(TEXT, quote)


def test_places_of_a_long_text_are_found_across_its_blocks():
    """Wherever they stand."""
    draw = random.Random(3)
    text = " ".join(draw.choice(WORDS) + str(draw.randrange(9999)) for _ in range(40_000))
    for start in (0, 65_500, 65_536, 131_000, len(text) - 300):
        quote = text[start : start + 300].strip()
        assert find_quote(text, quote).start == text.find(quote)
        changed = quote[:100] + "CHANGED" + quote[110:]
        place = find_quote(text, changed)
        assert place.match == "nearest"
        assert abs(place.start - text.find(quote)) <= 20


@given(st.text("ab \u200b\n\u2014C", max_size=60), st.data())
def test_what_is_cut_out_of_a_text_is_found(text, data):
    """Any part that has a visible character."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    if text[start:end].strip(" \n\u200b"):
        place = find_quote(text, text[start:end])
        assert place.match == "exact"
        assert text[place.start : place.end] == text[start:end].strip()


@given(st.text("ab \u200b\n\u2014C\u0130", max_size=60), st.text("ab \u200b\nC-", max_size=12))
def test_any_quotation_has_an_answer_inside_the_text(text, quote):
    """Offsets never leave it."""
    if quote.strip(" \n\u200b"):
        place = find_quote(text, quote)
        assert 0 <= place.start <= place.end <= len(text)
        assert (place.match == "none") == (place.end == 0)


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("a" * 500_000, "a" * 1999 + "b"), (" a" * 250_000, " a" * 999 + "q"), ("a" + " " * 500_000 + "c", "a b"),
        ("a" + "\u200b" * 500_000, "a b"), ("ab" * 250_000, "ba" * 999 + "c"), ("\u9be8\u6b4c" * 250_000, "\u9be8\u6b4c\u6d77" * 600),
    ],
)  # fmt: skip
def test_worst_texts_and_quotations_have_an_answer(text, quote):
    """Periods, white space, one word without an end: the answer's length stays that of the quotation."""
    place = find_quote(text, quote)
    assert place.end - place.start <= 3 * MAX_QUOTE_CHARS + 100


async def test_long_comparison_leaves_the_loop_free(monkeypatch):
    """Other work runs while it lasts."""
    lasts = threading.Event()

    def find(text, quote):
        assert lasts.wait(60)
        return find_quote(text, quote)

    monkeypatch.setattr("searchbus_passages.quotes.find_quote", find)
    comparing = asyncio.ensure_future(Comparisons().find("a cat sat", "a cat"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not comparing.done()
    lasts.set()
    assert (await comparing).match == "exact"


async def test_many_comparisons_all_have_an_answer():
    """One after the other."""
    comparisons = Comparisons()
    found = await asyncio.gather(*(comparisons.find(f"text {n}", f"text {n}") for n in range(20)))
    assert {place.match for place in found} == {"exact"}
    with pytest.raises(ValueError, match="empty"):
        await comparisons.find("text", " ")

"""Quantities of questions in passages, however they are spelled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_retrieval.question.quantities import Quantities


@pytest.mark.parametrize(
    "text",
    [
        "5-1/4 percent", "5\u20111/4 percent", "5 1/4 per cent", "5\u00bc percent", "5.25%", "5.250 percent",
        "between 5-1/4 and 6", "5.25", "5\u00e2\u0080\u00911/4 percent",
    ],
)  # fmt: skip
def test_spellings_of_a_fraction_are_one(text):
    """Hyphens of all kinds, signs, decimals."""
    for query in ("a rate of 5.25 percent", "a rate of 5-1/4 percent", "5\u00bc percent"):
        assert Quantities(query).share_in("", text) == 1.0


@pytest.mark.parametrize(
    "text", ["15.25 percent", "5.256 percent", "5-1/2 percent", "5/1/4", "5 percent", "v5.25", ""]
)
def test_other_numbers_are_not_it(text):
    """Nor is a part of a longer one."""
    assert Quantities("a rate of 5.25 percent").share_in(text) == 0.0


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("$600 billion of securities", "up to $600 billion"), ("75 basis points", "a 75-basis-point cut"),
        ("lowered to 1 percent", "to 1 percent"), ("0 to 1/4 percent", "a range of 0 to \u00bc percent"),
        ("1 to 2 percent", "1\u20132 percent"),
    ],
)  # fmt: skip
def test_numbers_with_a_unit_are_quantities(query, text):
    """Money, shares, ranges."""
    quantities = Quantities(query)
    assert quantities
    assert quantities.share_in(text) == 1.0


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("a jobless rate of six and a half percent", "above 6-1/2 percent"),
        ("twenty-five basis points", "by 1/4 percentage point"), ("two per cent", "2 percent"),
        ("cut by half a point", "by 50 basis points"), ("a quarter of a point", "by 1/4 percentage point"),
        ("Three-quarters of a percentage point", "by 3/4 percentage point"),
        ("S\u0130X PERCENT", "6 percent"), ("\u017f\u0131x percent", "6 percent"),
    ],
)  # fmt: skip
def test_numbers_of_a_query_may_be_words(query, text):
    """As people say them."""
    assert Quantities(query).share_in(text) == 1.0


@pytest.mark.parametrize("query", ["at this point", "a five point plan", "the first half of 2019"])
def test_words_that_are_no_amounts_are_no_quantities(query):
    """Though they are beside such words."""
    assert not Quantities(query)


@pytest.mark.parametrize("query", ["meeting of March 16, 2022", "9/11", "3/3", "page 12", "none"])
def test_years_and_pages_are_no_quantities(query):
    """They are in the dates, or say nothing."""
    assert not Quantities(query)
    assert Quantities(query).share_in("2022 12 9/11") == 0.0


@pytest.mark.parametrize(
    ("query", "text", "share"),
    [
        ("cut by 50 basis points", "lowered by 1/2 percentage point", 1.0),
        ("a rise of .5", "a rise of 0.5", 0.0),
        ("half a point: 0.5 percentage point", "a 50-basis-point cut", 1.0),
        ("to 1 percent", "by 1 percentage point", 0.0),
        ("$600 billion", "$0.6 trillion", 1.0),
        ("$600 billion", "$600 million", 0.0),
        ("4.75 to 5 percent", "between 4-3/4 and 5 percent", 1.0),
        ("4.75 to 5 percent", "to 4-3/4 percent, and inflation of 5 percent", 0.0),
        ("4.75 percent", "a range of 4-3/4 to 5 percent", 1.0),
        ("5 percent", "a range of 4-3/4 to 5 percent", 1.0),
    ],
)
def test_units_and_ranges_count(query, text, share):
    """Points are no percent; the two ends of a range are one quantity."""
    assert Quantities(query).share_in(text) == share


def test_quantity_counts_by_its_sentence():
    """Where the caller says so."""
    quantities = Quantities("1 percent")
    text = "It rose. They kept it at 1 percent, and left. Then."
    sentences = []
    assert quantities.share_in(text, counts=lambda s: bool(sentences.append(s))) == 0.0
    assert sentences == [" They kept it at 1 percent, and left"]
    assert quantities.share_in(text, counts=lambda sentence: "kept" in sentence) == 1.0


def test_share_of_several():
    """Half of them are half."""
    quantities = Quantities("from $60 billion to $25 billion")
    assert quantities.share_in("the cap of $25 billion") == 0.5
    assert Quantities("5.25 to 5.5 percent").spellings == ["5-1/4", "5-1/2"]
    assert Quantities("0.5 percent").spellings == ["1/2"]


@given(st.text("0123456789/-.,$% \u00bc\u2011percnt", max_size=200))
def test_any_text_can_be_read(text):
    """And matches itself, where it has quantities."""
    quantities = Quantities(text)
    assert quantities.share_in(text) == (1.0 if quantities else 0.0)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("a 25bp cut", "by 1/4 percentage point"), ("25bps", "0.25 percentage point"),
        ("purchases of $85bn a month", "at a pace of $85 billion per month"),
        ("40 billion per month", "$40 billion per month"), ("1/4 of a percentage point", "25 basis points"),
        ("by 0.5 percentage point", "by 50 basis points"),
    ],
)  # fmt: skip
def test_short_units_are_the_same_quantities(question, text):
    """Without a space before them."""
    assert Quantities(question).share_in(text) == 1.0


def test_letters_after_a_number_are_no_unit():
    """Of a name."""
    assert not Quantities("the 25bpx and the 3rd")

"""The interface of providers."""

from __future__ import annotations

import re

import pytest

from searchbus_contracts import decode, encode
from searchbus_web.providers.base import Query, Result, SearchResults, iso_date, registrable_domain


def test_results_can_be_cached():
    """They are the same after encoding and decoding."""
    results = SearchResults((Result("t", "http://a.org/", "s", "2026-03-02"),), ("note",))
    assert decode(encode(results), SearchResults) == results


def test_equal_queries_have_equal_texts():
    """The cache's key is made of them."""
    one = Query("cats", 5, include_domains=("a.org",))
    assert repr(one) == repr(Query("cats", 5, include_domains=("a.org",)))
    assert repr(one) != repr(Query("cats", 5, exclude_domains=("a.org",)))


@pytest.mark.parametrize(
    ("included", "excluded", "text"),
    [
        ((), (), "cats"),
        (("a.org",), (), "cats site:a.org"),
        (("a.org", "b.org"), ("c.org",), "cats (site:a.org OR site:b.org) -site:c.org"),
        (("a.org/docs",), ("c.org/x", "d.org"), "cats site:a.org/docs -site:d.org"),
    ],
)
def test_filters_become_operators(included, excluded, text):
    """One domain needs no brackets."""
    query = Query("cats", 5, include_domains=included, exclude_domains=excluded)
    assert query.with_operators("Test") == (text, [])


def test_number_of_operators_is_limited():
    """The results are filtered afterwards as well; domains that are not searched are told."""
    many = tuple(f"d{n}.org" for n in range(12))
    text, notes = Query("cats", 5, exclude_domains=many).with_operators("Test")
    assert (text.count("-site:"), notes) == (8, [])
    text, notes = Query("cats", 5, include_domains=many).with_operators("Test")
    assert text.endswith("OR site:d7.org)")
    assert notes == ["Test was asked for 8 of 12 includeDomains. Search for the others separately."]


WORDS = "whales sing in low notes " * 30


@pytest.mark.parametrize("max_chars", [80, 400, 499])
@pytest.mark.parametrize("text", ["cats", WORDS[:390].strip(), WORDS[:499].strip(), "x" * 600])
@pytest.mark.parametrize("included", [0, 1, 3, 12])
def test_text_gives_way_to_its_filters(text, max_chars, included):
    """Operators that are cut off, or in the middle, would search elsewhere; a note says so."""
    domains = tuple(f"a-domain-{n}.example.org" for n in range(included))
    query = Query(text, 5, include_domains=domains, exclude_domains=("no.example.org",))
    found, notes = query.with_operators("Test", max_chars)
    assert len(found) <= max_chars
    words, _, _ = found.partition(" (site:" if " (site:" in found else " site:")
    words = words.partition(" -site:")[0]
    assert text.startswith(words)
    assert any("first" in note for note in notes) == (words != text)
    sent = re.findall(r"(?<![-\w])site:([\w.-]+)", found)
    assert sent == list(domains[: len(sent)])
    assert any("includeDomains" in note for note in notes) == (len(sent) < included)
    assert found.count("(") == found.count(")") == (len(sent) > 1)
    assert not included or sent


@pytest.mark.parametrize(
    ("value", "iso"),
    [
        ("Mon, 02 Mar 2026 10:00:00 GMT", "2026-03-02T10:00:00Z"),
        ("2026-03-02T10:00:00+02:00", "2026-03-02T08:00:00Z"),
        ("2026-03-02", "2026-03-02"), ("2026-03-02T10:00:00.000", "2026-03-02T10:00:00Z"),
        (1772445600, "2026-03-02T10:00:00Z"), ("yesterday", None), ("", None), (None, None),
        (True, None), ("2026-13-40", None), (1e20, None),
        # As .NET writes no date; of no day in UTC.
        ("0001-01-01T00:00:00", "0001-01-01T00:00:00Z"), ("0001-01-01T00:00:00+05:00", None),
    ],
)  # fmt: skip
def test_dates_become_iso(value, iso):
    """Dates that cannot be read are left out."""
    assert iso_date(value) == iso


def test_registrable_domains():
    """By the Public Suffix List; an address stays as it is."""
    assert registrable_domain("news.bbc.co.uk") == "bbc.co.uk"
    assert registrable_domain("www.example.org") == "example.org"
    assert registrable_domain("8.8.8.8") == "8.8.8.8"


def test_cleaned_result_has_lines_without_invisible_characters():
    """Of limited length; the host replaces a missing title."""
    result = Result("a\nb\u202ec", "https://www.a.org/x", "s\u200b" * 3000).cleaned()
    assert (result.title, result.snippet) == ("a bc", "s" * 2000)
    assert Result(" ", "https://www.a.org/x").cleaned().title == "www.a.org"
    assert result.source == "a.org"


def test_what_follows_readers_leaves_the_url():
    """The rest of it stays."""
    result = Result("t", "https://a.org/x?utm_source=f&id=7").cleaned()
    assert result.url == "https://a.org/x?id=7"


def test_title_and_snippet_are_inert():
    """They are text of strangers like any page."""
    shown = Result(
        "![a](http://e.org/?q) x", "http://a.org/", "<img src=x> \u00ad\U000e0041y"
    ).cleaned()
    assert (shown.title, shown.snippet) == ("[image: a] x", "< img src=x> y")


def test_date_of_megabytes_is_none():
    """It is not parsed."""
    assert iso_date("1" * 5_000_000) is None

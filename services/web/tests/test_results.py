"""Single results."""

from __future__ import annotations

import pytest

from searchbus_web.results import Result, iso_date, registrable_domain


@pytest.mark.parametrize(
    ("value", "iso"),
    [
        ("Mon, 02 Mar 2026 10:00:00 GMT", "2026-03-02T10:00:00Z"),
        ("2026-03-02T10:00:00+02:00", "2026-03-02T08:00:00Z"),
        ("2026-03-02", "2026-03-02"), ("2026-03-02T10:00:00.000", "2026-03-02T10:00:00Z"),
        (1772445600, "2026-03-02T10:00:00Z"), ("yesterday", None), ("", None), (None, None),
        (True, None), ("2026-13-40", None), (1e20, None),
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

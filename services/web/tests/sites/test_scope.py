"""Addresses of a site, and globs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_contracts import Fault
from searchbus_web.sites.scope import SiteScope, matches


@pytest.mark.parametrize(
    ("glob", "text", "fits"),
    [
        ("/docs/*", "/docs/a/b", True), ("/docs/*", "/docs", False), ("*", "", True),
        ("/a*b*c", "/a1b2c", True), ("/a*b*c", "/a1c2b", False), ("/ab*ba", "/aba", False),
        ("/x", "/x", True), ("/x", "/xy", False), ("/[a-z]+", "/b", False), ("/a?b", "/acb", False),
        ("*" * 200, "/" * 1000, True), ("*a" * 100 + "b", "/" + "a" * 999, False),
    ],
)  # fmt: skip
def test_only_the_star_is_special(glob, text, fits):
    """It stands for any characters, none too."""
    assert matches(glob, text) is fits


@given(st.lists(st.text("ab/", max_size=3), min_size=1, max_size=6), st.data())
def test_text_made_from_a_glob_fits_it(pieces, data):
    """Whatever stands in the place of each star."""
    text = pieces[0]
    for piece in pieces[1:]:
        text += data.draw(st.text("ab/", max_size=3)) + piece
    assert matches("*".join(pieces), text)


@pytest.mark.parametrize(
    ("url", "admitted"),
    [
        ("https://docs.example.co.uk/a", True), ("http://example.co.uk", True),
        ("https://example.co.uk.evil.com/", False), ("https://other.co.uk/", False),
        ("https://example.co.uk/a.PNG", False), ("https://example.co.uk/a.pdf", True),
        ("mailto:a@example.co.uk", False), ("https://u:p@example.co.uk/", False),
        ("https://example.co.uk/" + "x" * 1000, False), ("https://example.co.uk/old/x", False),
        ("http://[::1", False), ("https://example.co.uk/x?print=1", False),
    ],
)  # fmt: skip
def test_site_is_the_registrable_domain(url, admitted):
    """Other sites, files without text, credentials and long addresses are left out."""
    scope = SiteScope(
        "https://www.example.co.uk/", (), ("/old/*", "*?print=1"), allows_host=lambda _: False
    )
    assert scope.site == "example.co.uk"
    assert scope.admits(url) is admitted


def test_glob_of_a_whole_address_narrows_to_a_host():
    """The path alone fits it no more than that of another host."""
    scope = SiteScope(
        "https://a.example.org/", ("https://docs.example.org/*",), (), allows_host=lambda _: False
    )
    assert scope.admits("https://docs.example.org/x")
    assert not scope.admits("https://a.example.org/x")


def test_host_of_the_operator_is_a_site():
    """Also without a dot; other hosts that are not public are none."""
    scope = SiteScope("http://wiki:8080/", (), (), allows_host=lambda host: host == "wiki")
    assert scope.admits("http://wiki:8080/page")
    with pytest.raises(Fault, match="url"):
        SiteScope("http://wiki:8080/", (), (), allows_host=lambda _: False)


@pytest.mark.parametrize("start", ["www", "wiki"])
def test_a_public_site_does_not_lead_into_the_allowlist(start):
    """Its authors would choose what is asked of the operator's hosts."""
    scope = SiteScope(
        f"https://{start}.example.com/", (), (), allows_host=lambda host: host == "wiki.example.com"
    )
    assert scope.has("https://wiki.example.com/delete?id=1") is (start == "wiki")
    assert scope.has("https://docs.example.com/")

"""Targets of links."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from searchbus_ddg.links import target_of


@pytest.mark.parametrize(
    ("href", "target"),
    [
        ("//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.org%2Fx%252Fy%3Fq%3D1%252B1&rut=1",
         "https://a.org/x%2Fy?q=1%2B1"),
        ("https://a.org/direct?x=%26", "https://a.org/direct?x=%26"),
        ("/l/?uddg=https%3A%2F%2Fa.org%2F", "https://a.org/"),
        ("//duckduckgo.com/l/?uddg=" + quote("https://duckduckgo.com/y.js?ad=1", safe=""), None),
        ("https://duckduckgo.com/y.js?ad_domain=x", None),
        ("https://html.duckduckgo.com/y.js?ad_domain=x", None),
        ("//duckduckgo.com/l/?uddg=" + quote("//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.org"), None),
        ("//duckduckgo.com/l/?rut=1", None),
        ("javascript:alert(1)", None),
        ("//duckduckgo.com/l/?uddg=javascript%3Aalert(1)", None),
        ("//duckduckgo.com/l/?uddg=http%3A%2F%2F127.0.0.1%2F", None),
        ("http://169.254.169.254/latest", None),
        ("//duckduckgo.com/l/?uddg=http%3A%2F%2F%5B%3A%3A1", None),
        ("https://en.wikipedia.org/wiki/DuckDuckGo", "https://en.wikipedia.org/wiki/DuckDuckGo"),
        ("", None),
        (None, None),
    ],
)  # fmt: skip
def test_links_are_decoded_once_and_ads_left_out(href, target):
    """A link to a page that is not public is not a result."""
    assert target_of(href) == target

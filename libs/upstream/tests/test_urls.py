"""Comparison of URLs."""

from __future__ import annotations

import pytest

from searchbus_upstream import canonical_key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://www.a.org/x/?utm_source=1&b=2&a=1#top", "https://a.org/x?a=1&b=2"),
        ("https://m.a.org:443/x/../y/index.html", "http://a.org/y"),
        ("https://a.org/%7Euser", "https://a.org/~user"),
        ("https://BÜCHER.example/", "https://xn--bcher-kva.example"),
        ("https://a.org/story/amp", "https://a.org/story"),
    ],
)
def test_spellings_of_one_url_have_one_key(one, other):
    """For comparison only: what is shown is the provider's URL."""
    assert canonical_key(one) == canonical_key(other)


def test_different_pages_have_different_keys():
    """Path, query and port distinguish them."""
    urls = ["https://a.org/x", "https://a.org/X", "https://a.org/x?id=1", "https://a.org/x?id=2",
            "https://a.org:8443/x", "https://b.org/x", "https://a.org/x?ref=2"]  # fmt: skip
    assert len({canonical_key(url) for url in urls}) == len(urls)

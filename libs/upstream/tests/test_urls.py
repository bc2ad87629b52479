"""URLs that name the same page."""

from __future__ import annotations

import pytest

from searchbus_upstream import canonical_key, without_trackers


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


@pytest.mark.parametrize(
    ("url", "short"),
    [
        ("https://a.org/x?utm_source=n&utm_medium=m", "https://a.org/x"),
        ("https://a.org/x?b=%7e&UTM_Campaign=z&a=1&a#p?gclid=1", "https://a.org/x?b=%7e&a=1&a#p?gclid=1"),
        ("https://a.org/x?%75tm_source=n#top", "https://a.org/x#top"),
        ("https://a.org/x?gclid", "https://a.org/x"),
        ("https://a.org/x?q=utm_source=1&ref=2&&", "https://a.org/x?q=utm_source=1&ref=2&&"),
        ("https://a.org/?", "https://a.org/?"),
        ("https://a.org/utm_source=1", "https://a.org/utm_source=1"),
    ],
)  # fmt: skip
def test_only_tracking_parameters_leave_a_url(url, short):
    """Order, spelling and fragment of the rest are the page's."""
    assert without_trackers(url) == short


@pytest.mark.parametrize(
    "text", ["http://[x", "http://a.org:99999/", "http://a.org:b/", "http://℀.org/"]
)
def test_what_is_no_url_is_its_own_key(text):
    """Others wrote it; one such result must not end a whole search."""
    assert canonical_key(text) == text

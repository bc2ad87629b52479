"""Public addresses, hosts and URLs."""

from __future__ import annotations

import ipaddress
import re

import pytest

from searchbus_upstream import canonical_key, is_public_host, is_public_url, without_trackers
from searchbus_upstream.addresses import is_public_address

PRIVATE = """
127.0.0.1 127.1 127.0.1 0 0.0.0.0 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254
100.64.0.1 100.100.100.200 168.63.129.16 192.0.0.192 192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.1
224.0.0.1 240.0.0.1 255.255.255.255 2130706433 0x7f.1 0x7f000001 0177.0.0.1 017700000001 192.88.99.1
[::1] [::] [::ffff:127.0.0.1] [::ffff:7f00:1] [64:ff9b::7f00:1] [64:ff9b:1::1] [2002:7f00:1::]
[2001::1] [fc00::1] [fd00:ec2::254] [fe80::1] [fec0::1] [ff02::1] [2001:db8::1] [3fff::1] [5f00::1]
localhost localhost. foo.localhost metadata.google.internal printer.local intranet host router.lan
nas.home.arpa a..b
""".split()
PUBLIC = "example.org www.bücher.example 8.8.8.8 1.1.1.1 [2606:4700::1111] a.co xn--bcher-kva.example".split()


@pytest.mark.parametrize("host", PRIVATE)
def test_private_hosts_are_recognised_by_their_spelling(host):
    """Address literals of every form, and names that only a local network has, are refused."""
    assert not is_public_host(host)
    assert not is_public_url(f"http://{host}/")


@pytest.mark.parametrize("host", PUBLIC)
def test_public_hosts_pass(host):
    """Ordinary names and addresses are public."""
    assert is_public_url(f"https://{host}/path?q=1#f")
    assert is_public_url(
        f"https://{host}/two words.pdf?q=a b"
    )  # as pages have them; HTTP escapes it


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "ftp://example.org/",
     "http://", "https:///x", "//example.org", "http://user:pw@example.org/", "http://a b.org/",
     "http://example.org:0/", "http://example.org:99999/", "http://ex\\ample.org/",
     "http://example.org\n.evil.org/", "http://[::1", ""],
)  # fmt: skip
def test_other_urls_are_not_public(url):
    """Other schemes, credentials, control characters and invalid URLs are refused."""
    assert not is_public_url(url)


def test_public_corpus_of_internal_addresses(reference):
    """Addresses in a public list of SSRF payloads are refused; names that need DNS are left out."""
    folder = reference / "corpora"
    lists = [p for p in folder.rglob("*") if p.is_file() and "ssrf" in str(p).lower()]
    seen = 0
    for path in lists:
        for line in path.read_text(errors="replace").splitlines():
            for found in re.findall(r"https?://(\d+\.\d+\.\d+\.\d+|\[[0-9a-fA-F:.]+\])[:/]", line):
                host = found.strip("[]")
                if host.startswith(("127.", "10.", "169.254.", "192.168.", "0.", "::1", "::ffff")):
                    seen += 1
                    assert not is_public_host(found), line
    assert seen >= 5


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True), ("2606:4700::1111", True), ("10.0.0.1", False),
        ("192.0.0.192", False), ("64:ff9b::7f00:1", False), ("2002:7f00:1::", False),
        ("::ffff:8.8.8.8", False), ("fec0::1", False), ("224.0.0.1", False),
        ("::8.8.8.8", False), ("::127.0.0.1", False), ("::ffff:0:127.0.0.1", False),
        ("::ffff:0:8.8.8.8", False), ("3ffe::1", False), ("3fff::1", False), ("4000::1", False),
        ("1::1", False), ("64:ff9b::10.0.0.1", False), ("64:ff9b::8.8.8.8", True),
        ("64:ff9b::169.254.169.254", False), ("64:ff9b:1::8.8.8.8", False),
        ("64:ff9b:1:7f00:0:100::", False), ("2002:a00:1::", False), ("2002:808:808::", False),
        ("2001:0:7f00:1::", False), ("2001:0:4136:e378:8000:63bf:f5ff:fffe", False),
        ("2001:db8::1", False), ("2001:4860:4860::8888", True), ("2a00:1450:4001::1", True),
        ("2620:4f:8000::1", False), ("5f00::1", False), ("100::1", False),
    ],
)  # fmt: skip
def test_resolved_addresses_are_checked_by_the_table(address, public):
    """Also those that `ipaddress.is_global` would accept, and IPv6 forms of public IPv4."""
    assert is_public_address(ipaddress.ip_address(address)) is public


def test_host_longer_than_names_may_be_is_not_public():
    """It is not normalised, which may take long."""
    assert is_public_host("a" * 60 + ".org")
    assert not is_public_host("a." * 200 + "org")


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

"""Sitemaps: XML, lines of text, gzip, and what is hostile."""

from __future__ import annotations

import codecs
import gzip
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from searchbus_pages import sitemaps
from searchbus_pages.sitemaps import Sitemap, read_sitemap

URLSET = b"""<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://i.example/1.1">
<url><loc> http://a.org/?x=1&amp;y=2 </loc><lastmod>2026-01-02</lastmod>
<image:image><image:loc>http://a.org/p.png</image:loc></image:image></url>
<url><loc>http://a.org/b</loc></url><url><loc></loc></url><url/></urlset>"""


@pytest.mark.parametrize("packed", [False, True])
def test_addresses_and_dates(packed):
    """Entities of XML are read; extensions and empty entries are not taken for pages."""
    body = gzip.compress(URLSET) if packed else URLSET
    assert read_sitemap(body) == Sitemap(
        [("http://a.org/?x=1&y=2", "2026-01-02"), ("http://a.org/b", "")]
    )


def test_index_lists_sitemaps():
    """Also without a namespace."""
    body = b"<sitemapindex><sitemap><loc>http://a.org/1.xml</loc></sitemap></sitemapindex>"
    assert read_sitemap(body) == Sitemap([], ["http://a.org/1.xml"])


def test_lines_of_text():
    """With a byte order mark."""
    assert read_sitemap(b"\xef\xbb\xbfhttp://a.org/1\r\nhttp://a.org/2\n").pages == [
        ("http://a.org/1", ""), ("http://a.org/2", ""),
    ]  # fmt: skip


def test_what_came_before_a_fault_is_kept():
    """A sitemap that breaks off, in XML or in gzip."""
    for body in (URLSET[:-30], gzip.compress(URLSET)[:-10]):
        found = read_sitemap(body)
        assert found.cut
        assert found.pages[:1] == [("http://a.org/?x=1&y=2", "2026-01-02")]


LINES = b"".join(b"http://a.org/%d/%s\n" % (n, sha256(b"%d" % n).hexdigest().encode())
                 for n in range(3000))  # fmt: skip


@pytest.mark.parametrize("body", [LINES, b"<urlset>" + LINES + b"</urlset>"])
def test_gzip_that_is_cut_or_damaged_is_not_whole(body):
    """Of lines, too, which have no end of their own; also far behind the first piece."""
    packed = gzip.compress(body)
    assert len(body) > len(packed) > 100_000
    assert not read_sitemap(packed).cut
    assert not read_sitemap(gzip.compress(body[:100_000]) + gzip.compress(body[100_000:])).cut
    for at in (-4, -5000, len(packed) // 2):
        assert read_sitemap(packed[:at]).cut
        assert read_sitemap(packed[:at] + b"\xff" * 1000 + packed[at:]).cut
    assert len(read_sitemap(gzip.compress(LINES)[:-5000]).pages) > 2000


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_text_above_the_limit_is_not_whole(pack, monkeypatch):
    """Whether it came packed or not."""
    monkeypatch.setattr(sitemaps, "MAX_SITEMAP_BYTES", len(LINES) - 1)
    assert read_sitemap(pack(LINES)).cut
    monkeypatch.setattr(sitemaps, "MAX_SITEMAP_BYTES", len(LINES))
    assert read_sitemap(pack(LINES)) == Sitemap([(u, "") for u in LINES.decode().split()])


@pytest.mark.parametrize(
    "label", ["shift_jis", "gb2312", "euc-kr", "utf-16", "koi8-r", "foo", "x" * 99]
)
def test_every_encoding_is_read(label):
    """As feeds are; an unknown one is detected."""
    try:
        codec = codecs.lookup(label).name
    except LookupError:
        codec = "utf-8"
    body = f'<?xml version="1.0" encoding="{label}"?><urlset><url><loc>http://a.org/я</loc></url></urlset>'
    assert read_sitemap(body.encode(codec)).pages == [("http://a.org/я", "")]


@pytest.mark.parametrize("kind", ["INTERNAL", "SYSTEM"])
def test_document_type_is_refused(kind):
    """Before an entity is defined."""
    given = '"x"' if kind == "INTERNAL" else 'SYSTEM "file:///etc/passwd"'
    with pytest.raises(ValueError, match="document type"):
        read_sitemap(f"<!DOCTYPE u [<!ENTITY e {given}>]><urlset>&e;</urlset>".encode())


def test_limits(monkeypatch):
    """Of addresses, of the length of each, and of the bytes."""
    monkeypatch.setattr(sitemaps, "MAX_ADDRESSES", 3)
    one = "<url><loc>http://a.org/{}</loc></url>"
    body = "<urlset>" + "".join(one.format(n) for n in range(9)) + "</urlset>"
    found = read_sitemap(body.encode())
    assert (len(found.pages), found.cut) == (3, True)
    assert read_sitemap(f"<urlset>{one.format('x' * 3000)}</urlset>".encode()).pages == []
    monkeypatch.setattr(sitemaps, "MEAN_CHARS", 7)
    found = read_sitemap(body.encode())
    assert (len(found.pages), found.cut) == (2, True)
    found = read_sitemap(b"http://a.org/1\nhttp://a.org/2\n")
    assert (len(found.pages), found.cut) == (1, True)
    monkeypatch.setattr(sitemaps, "MAX_SITEMAP_BYTES", 100)
    body = "<urlset>" + " " * 200_000 + one.format(1) + "</urlset>"
    assert read_sitemap(gzip.compress(body.encode())) == Sitemap(cut=True)


@given(st.binary(max_size=300) | st.text("<>/aurlsetoc &;", max_size=200).map(str.encode))
def test_no_bytes_make_it_fail_otherwise(body):
    """Every fault is a cut, or a document type."""
    try:
        found = read_sitemap(body)
    except ValueError:
        return
    assert isinstance(found, Sitemap)

"""Sitemaps: XML, lines of text, gzip, and what is hostile."""

from __future__ import annotations

import gzip

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

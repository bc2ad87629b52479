"""The addresses of a sitemap (sitemaps.org 0.9): XML or lines of text, also in gzip.

It is read only as far as the limits admit. A document type is refused, since it may define
entities: without one there is nothing to expand.
"""

from __future__ import annotations

import gzip
import zlib
from io import BytesIO
from xml.parsers import expat

import msgspec

from .charset import decode_text

MAX_ADDRESSES = 10_000
MAX_ADDRESS_CHARS = 2_000
MEAN_CHARS = 200
"""Addresses of one sitemap have no more characters on average."""
MAX_SITEMAP_BYTES = 50 * 2**20
"""The most of one sitemap without its compression: the limit of the protocol."""
_PIECE = 64 * 1024
_GZIP = b"\x1f\x8b"


class Sitemap(msgspec.Struct):
    """What one sitemap lists.

    Args:
        pages: pairs of an address and the date of its last change, which may be empty.
        sitemaps: of a sitemap index.
        cut: whether there was more than the limits admit, or the rest cannot be read.
    """

    pages: list[tuple[str, str]] = []
    sitemaps: list[str] = []
    cut: bool = False


class _FullError(Exception):
    """There are as many addresses as are read."""


def read_sitemap(body: bytes, *, most: int | None = None) -> Sitemap:
    """The addresses of a sitemap.

    Args:
        most: addresses that are read; by default `MAX_ADDRESSES`.

    Raises:
        ValueError: it has a document type.
    """
    most = MAX_ADDRESSES if most is None else most
    body, cut = _unpacked(body)
    text = decode_text(body, markup=True).lstrip()
    found = (_read_lines if text[:4].lower() == "http" else _read_xml)(text, most)
    found.cut |= cut
    return found


def _unpacked(body: bytes) -> tuple[bytes, bool]:
    """The sitemap without its compression, and whether its end is missing."""
    if not body.startswith(_GZIP):
        return body[:MAX_SITEMAP_BYTES], len(body) > MAX_SITEMAP_BYTES
    whole = bytearray()
    try:
        with gzip.open(BytesIO(body)) as file:
            while len(whole) <= MAX_SITEMAP_BYTES and (piece := file.read1(_PIECE)):
                whole += piece
    except (EOFError, OSError, zlib.error):
        return bytes(whole), True
    return bytes(whole[:MAX_SITEMAP_BYTES]), len(whole) > MAX_SITEMAP_BYTES


def _read_lines(text: str, most: int) -> Sitemap:
    lines = text.split(None, most)
    found = Sitemap(cut=len(lines) > most)
    left_chars = MEAN_CHARS * most
    for line in lines[:most]:
        left_chars -= len(line)
        if left_chars < 0:
            found.cut = True
            break
        found.pages.append((line[:MAX_ADDRESS_CHARS], ""))
    return found


def _read_xml(text: str, most: int) -> Sitemap:
    reader = _Reader(most)
    try:
        for start in range(0, len(text), _PIECE):  # as text: its declaration has no effect
            reader.parser.Parse(text[start : start + _PIECE], False)
        reader.parser.Parse("", True)
    except (_FullError, expat.ExpatError):
        reader.found.cut = True
    return reader.found


class _Reader:
    """Collects `urlset/url/loc`, its `lastmod`, and `sitemapindex/sitemap/loc`.

    Extensions, such as image:loc, are one level deeper.
    """

    def __init__(self, most: int) -> None:
        self.found = Sitemap()
        self._most = most
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self._depth = 0
        self._left_chars = MEAN_CHARS * most
        self._field = ""
        self._texts: dict[str, str] = {}

    def _refuse(self, *_: object) -> None:
        raise ValueError("a sitemap with a document type is not read")

    def _start(self, name: str, _: dict[str, str]) -> None:
        self._depth += 1
        self._field = name.rpartition(" ")[2] if self._depth == 3 else ""

    def _text(self, text: str) -> None:
        if self._field in ("loc", "lastmod"):
            before = self._texts.get(self._field, "")
            self._texts[self._field] = (before + text)[: MAX_ADDRESS_CHARS + 100]

    def _end(self, name: str) -> None:
        self._depth -= 1
        self._field = ""
        if self._depth != 1:
            return
        texts, self._texts = self._texts, {}
        address = texts.get("loc", "").strip()
        if not address or len(address) > MAX_ADDRESS_CHARS:
            return
        if name.rpartition(" ")[2] == "sitemap":
            self.found.sitemaps.append(address)
        else:
            self.found.pages.append((address, texts.get("lastmod", "").strip()[:40]))
        self._left_chars -= len(address)
        count = len(self.found.pages) + len(self.found.sitemaps)
        if count >= self._most or self._left_chars <= 0:
            raise _FullError

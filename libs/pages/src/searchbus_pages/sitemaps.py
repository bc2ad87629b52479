"""The addresses of a sitemap (sitemaps.org 0.9): XML or lines of text, also in gzip.

It is read piece by piece, and only as far as the limits admit. A document type is refused, since it
may define entities: without one there is nothing to expand.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from xml.parsers import expat

import msgspec

MAX_ADDRESSES = 10_000
MAX_ADDRESS_CHARS = 2_000
MEAN_CHARS = 200
"""Addresses of one sitemap have no more characters on average."""
MAX_SITEMAP_BYTES = 50 * 2**20
"""The most of one sitemap without its compression: the limit of the protocol."""
_PIECE_BYTES = 64 * 1024
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
    reader = _Reader(most)
    pieces = _pieces(body)
    try:
        first = next(pieces, b"")
    except zlib.error:
        return Sitemap(cut=True)
    if first.removeprefix(b"\xef\xbb\xbf").lstrip().lower().startswith(b"http"):
        return _read_lines(b"".join((first, *pieces)), most)
    try:
        reader.parser.Parse(first, False)
        for piece in pieces:
            reader.parser.Parse(piece, False)
        reader.parser.Parse(b"", True)
    except (_FullError, expat.ExpatError, zlib.error):
        reader.found.cut = True
    return reader.found


def _read_lines(body: bytes, most: int) -> Sitemap:
    lines = body.decode("utf-8-sig", "replace").split()
    found = Sitemap(cut=len(lines) > most)
    left_chars = MEAN_CHARS * most
    for line in lines[:most]:
        left_chars -= len(line)
        if left_chars < 0:
            found.cut = True
            break
        found.pages.append((line[:MAX_ADDRESS_CHARS], ""))
    return found


def _pieces(body: bytes) -> Iterator[bytes]:
    """The sitemap without its compression, in pieces; the last one is missing where it is cut."""
    if not body.startswith(_GZIP):
        for start in range(0, min(len(body), MAX_SITEMAP_BYTES), _PIECE_BYTES):
            yield body[start : start + _PIECE_BYTES]
        return
    engine = zlib.decompressobj(31)
    left_bytes = MAX_SITEMAP_BYTES
    while left_bytes > 0 and (piece := engine.decompress(body, _PIECE_BYTES)):
        body = engine.unconsumed_tail
        left_bytes -= len(piece)
        yield piece


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

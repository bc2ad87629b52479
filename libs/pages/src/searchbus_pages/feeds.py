"""RSS (0.9x, 1.0, 2.0) and Atom feeds: their entries.

Feeds are written by strangers, and many are not well-formed: references of HTML, stray `&` and
control characters are repaired. A document type with declarations is refused: a few bytes of
entities, or of an attribute's default, expand to gigabytes."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import urljoin
from xml.etree import ElementTree

from .charset import decode_text

MAX_ELEMENTS = 500_000
"""XML elements of one feed."""
WHOLE_TEXT_CHARS = 1500
"""A description of that length is the text itself: many RSS feeds have it there."""
_LEGAL = "\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff"
_ILLEGAL = re.compile(f"[^{_LEGAL}]")
_BEFORE_ROOT = re.compile(r"[\s\ufeff]+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^<>\[]*>", re.I | re.S)
_REFERENCE = re.compile(r"&(?:#(\d{1,7});|#[xX]([0-9a-fA-F]{1,6});|([A-Za-z]\w{0,31});)?")
_XML_NAMES = frozenset({"amp", "lt", "gt", "quot", "apos"})
_TAG = re.compile(r"<[^<>]*>")
_CHUNK_CHARS = 65536
_LINE_CHARS = 4096
"""Characters that are read of a title or an id."""


class FeedError(ValueError):
    """A file is not a feed that can be read; the message says why."""


class FeedEntry(NamedTuple):
    """One entry.

    Args:
        key: its id, else its address, else a hash of its text.
        url: of its page; empty where it has none.
        day: when it was published, YYYY-MM-DD; empty where that is unknown.
        text: HTML.
        whole: whether `text` is all of it, and not a summary.
        changed: the day of its last change that is stated; as `day`.
    """

    key: str
    title: str
    url: str
    day: str
    text: str
    whole: bool
    changed: str


def read_feed(body: bytes, url: str, charset: str | None = None) -> list[FeedEntry]:
    """The entries of a feed, in its order.

    Args:
        url: its address, which relative links are resolved against.
        charset: of the Content-Type header.

    Raises:
        FeedError: it is something else, not XML, has declarations of its own, or is too large.
    """
    found: list[FeedEntry] = []
    root = ""
    for element in _elements(decode_text(body, charset, markup=True)):
        name = _local(element)
        if not root:
            root = name
            if name not in ("rss", "rdf", "feed"):
                raise FeedError(f"its first element is <{name[:40]}>: no feed and no sitemap")
        elif name in ("item", "entry"):
            found.append(_entry(element, url))
            element.clear()
    return found


def _elements(text: str) -> Iterator[ElementTree.Element]:
    """The root at its beginning, then each element at its end."""
    text = _ILLEGAL.sub("", text)
    at = 0
    while found := _BEFORE_ROOT.match(text, at):
        at = found.end()
    if text.startswith("<!", at):
        raise FeedError("its document type has declarations, which are not read")
    if not text.startswith("<", at):
        raise FeedError("it is not well-formed XML (it begins with no element)")
    text = _REFERENCE.sub(_repaired, text[at:])
    # Without declarations there is nothing to expand, and expat has no limit to reach.
    parser: Any = ElementTree.XMLPullParser(("start", "end"))
    count = 0
    try:
        for start in range(0, len(text), _CHUNK_CHARS):
            parser.feed(text[start : start + _CHUNK_CHARS])
            for event, element in parser.read_events():
                count += event == "start"
                if count > MAX_ELEMENTS:
                    raise FeedError(f"it has more than {MAX_ELEMENTS:,} elements, the limit")
                if event == "end" or count == 1:
                    yield element
        parser.close()
    except ElementTree.ParseError as error:
        raise FeedError(f"it is not well-formed XML ({error})") from None


def _repaired(match: re.Match[str]) -> str:
    """A reference that XML understands; in CDATA the same HTML."""
    decimal, hexadecimal, name = match.groups()
    if name is not None:  # an unknown name stays, as text
        known = name in _XML_NAMES
        return match[0] if known else html.escape(html.unescape(match[0]), quote=False)
    if decimal is None and hexadecimal is None:
        return "&amp;"
    number = int(decimal) if decimal else int(hexadecimal, 16)
    character = chr(number) if number < 0x110000 else ""
    return html.escape(_ILLEGAL.sub("", character), quote=False)


def _entry(element: ElementTree.Element, base: str) -> FeedEntry:
    texts: dict[str, str] = {}
    link = ""
    for child in element:
        name = _local(child)
        if name == "link" and (child.get("href") or child.text):
            if child.get("rel", "alternate") == "alternate":
                link = link or _joined(base, child.get("href") or child.text or "")
        elif name not in texts:
            texts[name] = _markup(child)
    content = texts.get("encoded") or texts.get("content") or ""
    summary = texts.get("description") or texts.get("summary") or ""
    guid = _plain_text(texts.get("guid") or texts.get("id") or "")
    if not link and guid.startswith(("http://", "https://")):
        link = guid
    text = content or summary
    title = _plain_text(texts.get("title", ""))
    day = _day(texts.get("published") or texts.get("pubdate") or texts.get("date")
               or texts.get("updated") or "")  # fmt: skip
    key = guid or link or sha256(f"{title}\n{text}".encode()).hexdigest()
    whole = bool(content) or not link or len(summary) >= WHOLE_TEXT_CHARS
    changed = max(day, _day(texts.get("updated", "")))
    return FeedEntry(key[:1000], title, link, day, text, whole, changed)


def _markup(element: ElementTree.Element) -> str:
    """The content of an element as HTML."""
    if len(element):  # Atom's XHTML
        for inner in element.iter():
            inner.tag = _local(inner)
        try:
            return "".join(ElementTree.tostring(child, encoding="unicode") for child in element)
        except RecursionError:
            raise FeedError("its elements are nested too deeply") from None
    text = element.text or ""
    return html.escape(text) if element.get("type") == "text" else text


def _plain_text(text: str) -> str:
    return " ".join(html.unescape(_TAG.sub(" ", text[:_LINE_CHARS])).split())


def _day(text: str) -> str:
    text = text[:100]
    try:
        when = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        try:
            when = parsedate_to_datetime(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            return ""
    try:
        return (when.astimezone(UTC) if when.tzinfo else when).date().isoformat()
    except (ValueError, OverflowError):
        return ""


def _joined(base: str, link: str) -> str:
    try:
        address = urljoin(base, link.strip())
    except ValueError:
        return ""
    usable = link.strip() and address.startswith(("http://", "https://")) and len(address) <= 4096
    return address.partition("#")[0] if usable else ""


def _local(element: ElementTree.Element) -> str:
    return str(element.tag).rpartition("}")[2].lower()

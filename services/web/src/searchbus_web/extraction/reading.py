"""From the bytes of a page to clean text, and from a robots.txt to its answer.

Hostile input hangs any parser, so `python -m searchbus_web.extraction.reading` is a process of its
own, which pool.py starts, and kills when an answer takes too long. Questions and answers are
MessagePack.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from itertools import islice
from typing import Any

import msgspec
from selectolax.lexbor import LexborHTMLParser

from searchbus_contracts.visible import visible
from searchbus_pages import TooComplexError, check_html, decode_text, read_html
from searchbus_runtime.answering import answer_questions
from searchbus_upstream.text import inert

from .facts import Facts, clean_title, encoded, json_facts, read_facts, title_of

MEMORY_BYTES = 1024 * 2**20
MAX_CPU_S = 60
"""For one page, where its time is not shorter (`extract_page_timeout_s`)."""
MAX_TEXT_CHARS = 2_000_000
"""Characters of one page; the rest is left out."""
MAX_HTML_CHARS = 4_000_000
MAX_TAGS = 60_000
"""Tags of a page whose content is told from its menus, which takes up to 70 µs a tag."""
MAX_PDF_PAGES = 500
_SHORT_CHARS = 200
_SCRIPT = re.compile(r"<script\b(?![^>]{0,200}\btype=[\"']?application/(?:ld\+)?json)", re.I)
_NOSCRIPT = re.compile(r"<noscript\b", re.I)
_NOSCRIPT_CHARS = 1_000
_MAX_ASKING_CHARS = 1_000
"""Text of a page whose `noscript` asks for JavaScript; one with more text can be read without."""
_MAX_SITEMAPS = 50
_MAX_URL_CHARS = 2_000
_MAX_DELAY_S = 86_400.0
_EMPTY_LINES = re.compile(r"\n{3,}")


class PageReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the reply with a page says of it; texts may be empty.

    Args:
        url: after redirects.
        moved: whether there were redirects, each of them permanent.
        etag, modified, robots: of the headers ETag, Last-Modified and X-Robots-Tag.
    """

    url: str = ""
    moved: bool = False
    etag: str = ""
    modified: str = ""
    robots: str = ""


class PageBytes(msgspec.Struct, array_like=True, tag="page"):
    """A page as it was fetched.

    Args:
        media_type: lower case, without parameters.
        charset: of the Content-Type header.
    """

    url: str
    body: bytes
    media_type: str
    charset: str | None = None
    reply: PageReply = PageReply()


class RobotsQuestion(msgspec.Struct, array_like=True, tag="robots"):
    """Whether a robots.txt allows a URL to the crawler that it calls `token`."""

    rules: bytes
    url: str
    token: str


class SitemapQuestion(msgspec.Struct, array_like=True, tag="sitemap"):
    """The addresses of a sitemap; see sitemaps.py."""

    body: bytes


class FactsQuestion(msgspec.Struct, array_like=True, tag="facts"):
    """What a page says in a structured form; see facts.py."""

    page: PageBytes


class FillQuestion(msgspec.Struct, array_like=True, tag="fill"):
    """The data of a page for a JSON Schema; see filling.py.

    Args:
        facts: of the page, as JSON.
        given: the schema, as JSON.
    """

    facts: bytes
    given: bytes
    url: str


class HighlightsQuestion(msgspec.Struct, array_like=True, tag="highlights"):
    """The sentences of a text that answer a query; see highlights.py."""

    text: str
    query: str


class PageText(msgspec.Struct, array_like=True, tag="text"):
    """Markdown or plain text; without text `problem` says why.

    Args:
        problem: empty, scanned, encrypted, parse_error, too_complex, too_large.
        by_scripts: whether the page seems to get its text from its scripts.
        title: on one line; may be empty.
    """

    text: str = ""
    problem: str | None = None
    by_scripts: bool = False
    title: str = ""


class RobotsAnswer(msgspec.Struct, array_like=True, tag="allowed"):
    """Whether the URL may be fetched, and what else the file says (`delay_s`: 0 without one)."""

    allowed: bool
    delay_s: float = 0.0
    sitemaps: list[str] = []


class JsonAnswer(msgspec.Struct, array_like=True, tag="json"):
    """Facts, data or highlights, as JSON."""

    body: bytes


Question = (
    PageBytes | RobotsQuestion | SitemapQuestion | FactsQuestion | FillQuestion | HighlightsQuestion
)
Answer = PageText | RobotsAnswer | JsonAnswer


def answer(question: Question) -> Answer:
    """What a child process does for one message; see `read_page`."""
    if isinstance(question, RobotsQuestion):
        return _read_robots(question)
    if isinstance(question, PageBytes):
        return read_page(question)
    found: Any
    if isinstance(question, SitemapQuestion):
        from searchbus_pages import read_sitemap

        return JsonAnswer(msgspec.json.encode(read_sitemap(question.body)))
    if isinstance(question, FactsQuestion):
        return JsonAnswer(encoded(_facts(question.page)))
    if isinstance(question, FillQuestion):
        from .filling import fill

        schema = msgspec.json.decode(question.given)
        found = fill(msgspec.json.decode(question.facts, type=Facts), schema, question.url)
    else:
        from .highlights import highlights

        found = highlights(question.text, question.query)
    return JsonAnswer(msgspec.json.encode(found))


def _facts(page: PageBytes) -> Facts:
    markup = page.media_type == "text/html" or page.media_type.endswith("xml")
    if page.media_type == "application/pdf":
        return Facts()
    text = decode_text(page.body, page.charset, markup=markup)[:MAX_HTML_CHARS]
    if markup:
        return read_facts(text, page.url)
    return json_facts(text) if page.media_type.endswith("json") else Facts()


def read_page(page: PageBytes) -> PageText:
    """Parse a page, and clean its text.

    It may hang or fail on hostile input: run it in a process that can be killed.

    Raises:
        TooComplexError: it nests too deeply, or has too many attributes.
    """
    found = _read(page)
    text = clean_text(found.text[:MAX_TEXT_CHARS])
    if len(found.text) > MAX_TEXT_CHARS:
        text += f"\n\n[The first {MAX_TEXT_CHARS} of {len(found.text)} characters.]"
    if found.problem is None and not text:
        return PageText(problem="empty", by_scripts=found.by_scripts)
    return PageText(text, found.problem, found.by_scripts, found.title)


def clean_text(text: str) -> str:
    """Remove invisible characters and break up live markup and forged marks.

    Takes time in proportion to the text: run it where the text is limited, off the loop.
    """
    return _EMPTY_LINES.sub("\n\n", inert(visible(text))).strip()


def _read_robots(question: RobotsQuestion) -> RobotsAnswer:
    from searchbus_pages import read_robots

    try:
        rules = read_robots(question.rules)
    except TooComplexError:
        return RobotsAnswer(False)
    delay_s = rules.crawl_delay(question.token) or 0.0
    sitemaps = [url[:_MAX_URL_CHARS] for url in islice(rules.sitemaps, _MAX_SITEMAPS)]
    # A delay may be `nan` too, which is not above anything.
    return RobotsAnswer(
        bool(rules.can_fetch(question.url, question.token)),
        min(delay_s, _MAX_DELAY_S) if delay_s > 0 else 0.0,
        sitemaps,
    )


def _read(page: PageBytes) -> PageText:
    if page.media_type == "application/pdf":
        return _read_pdf(page.body)
    markup = page.media_type == "text/html" or page.media_type.endswith("xml")
    text = decode_text(page.body, page.charset, markup=markup)
    if page.media_type in ("text/html", "application/xhtml+xml"):
        return _read_html(text, page.url)
    if page.media_type.endswith("json"):
        return _read_json(text)
    stripped = text.strip()
    if page.media_type.endswith("xml") and "<html" in stripped[:2000].lower():
        return _read_html(text, page.url)
    return PageText(stripped) if stripped else PageText(problem="empty")


def _read_html(html: str, url: str) -> PageText:
    """The content of a page; all its text where there is little else, or too much of it.

    Raises:
        TooComplexError: parsing it would take long.
    """
    html = html[:MAX_HTML_CHARS]
    found = _html_text(html, url)
    found.title = title_of(LexborHTMLParser(html))
    chars = len(found.text)
    found.by_scripts = (chars < _SHORT_CHARS and _SCRIPT.search(html) is not None) or (
        chars < _MAX_ASKING_CHARS and _asks_for_scripts(html)
    )
    return found


def _asks_for_scripts(html: str) -> bool:
    starts = (match.start() for match in islice(_NOSCRIPT.finditer(html), 20))
    inside = (html[at : at + _NOSCRIPT_CHARS].lower().partition("</noscript")[0] for at in starts)
    return any("javascript" in text for text in inside)


def _html_text(html: str, url: str) -> PageText:
    text = _content(html, url) if check_html(html) <= MAX_TAGS else None
    if text and len(text) >= _SHORT_CHARS:
        return PageText(text)
    everything = read_html(html).text
    if text and len(everything) < 5 * _SHORT_CHARS:
        return PageText(text)  # a short page
    best = everything or text
    return PageText(best) if best else PageText(problem="empty")


def _content(html: str, url: str) -> str | None:
    import trafilatura

    found: str | None = trafilatura.extract(
        html,
        url=url,
        fast=True,
        output_format="markdown",
        include_comments=False,
        include_tables=True,
        include_formatting=True,
        include_links=False,
        include_images=False,
    )
    return found


def _read_json(text: str) -> PageText:
    try:
        return PageText(json.dumps(json.loads(text), indent=1, ensure_ascii=False))
    except (ValueError, RecursionError):
        stripped = text.strip()
        return PageText(stripped) if stripped else PageText(problem="empty")


def _read_pdf(body: bytes) -> PageText:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as error:
        return PageText(problem="encrypted" if "password" in str(error).lower() else "parse_error")
    parts: list[str] = []
    title, broken = "", 0
    try:
        with suppress(UnicodeDecodeError):  # it has half of a character
            title = clean_title(document.get_metadata_value("Title"))
        pages = len(document)
        for number in range(min(pages, MAX_PDF_PAGES)):
            try:
                page = document[number]
                text_page = page.get_textpage()
            except pypdfium2.PdfiumError:
                broken += 1
                parts.append(f"[Page {number + 1} cannot be read.]")
                continue
            parts.append(text_page.get_text_bounded().replace("\r\n", "\n").strip())
            text_page.close()
            page.close()
    finally:
        document.close()
    if broken and broken == pages:
        return PageText(problem="parse_error")
    if pages > MAX_PDF_PAGES:
        parts.append(f"[The first {MAX_PDF_PAGES} of {pages} pages.]")
    text = "\n\n".join(part for part in parts if part)
    return PageText(text, title=title) if text else PageText(problem="scanned")


def answered(body: bytes) -> bytes:
    """The encoded answer to an encoded question; no page makes it raise."""
    question: Question = msgspec.msgpack.decode(body, type=Question)
    found: Answer
    try:
        found = answer(question)
    except (MemoryError, TooComplexError):
        found = PageText(problem="too_complex")
    except Exception:  # parsers raise errors of every kind on hostile pages
        found = PageText(problem="parse_error")
    return msgspec.msgpack.encode(found)


if __name__ == "__main__":
    answer_questions(answered, memory_bytes=MEMORY_BYTES, cpu_s=MAX_CPU_S)

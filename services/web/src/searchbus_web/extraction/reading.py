"""From the bytes of a page to its text. Runs in a child process: hostile pages hang any parser."""

from __future__ import annotations

import json

import msgspec

from searchbus_pages import decode_text, read_html

__all__ = ["PageBytes", "PageText", "read_page"]

MAX_HTML_CHARS = 4_000_000
MAX_PDF_PAGES = 500
_SHORT_CHARS = 200


class PageBytes(msgspec.Struct, array_like=True):
    """A page as it was fetched.

    Args:
        charset: of the Content-Type header.
    """

    url: str
    body: bytes
    media_type: str
    charset: str | None = None


class PageText(msgspec.Struct, array_like=True):
    """Markdown or plain text; without text `problem` says why.

    Args:
        problem: empty, scanned, encrypted, parse_error, too_complex, too_large.
    """

    text: str = ""
    problem: str | None = None


def read_page(page: PageBytes) -> PageText:
    """Parse a page.

    It may hang or fail on hostile input: run it in a process that can be killed.
    """
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
    import trafilatura

    html = html[:MAX_HTML_CHARS]
    text = trafilatura.extract(
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
    if text and len(text) >= _SHORT_CHARS:
        return PageText(text)
    everything = read_html(html).text
    if text and len(everything) < 5 * _SHORT_CHARS:
        return PageText(text)  # a short page
    best = everything or text
    return PageText(best) if best else PageText(problem="empty")


def _read_json(text: str) -> PageText:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        stripped = text.strip()
        return PageText(stripped) if stripped else PageText(problem="empty")
    return PageText(json.dumps(value, indent=1, ensure_ascii=False))


def _read_pdf(body: bytes) -> PageText:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(body)
    except pypdfium2.PdfiumError as error:
        return PageText(problem="encrypted" if "password" in str(error).lower() else "parse_error")
    parts: list[str] = []
    try:
        pages = len(document)
        for number in range(min(pages, MAX_PDF_PAGES)):
            page = document[number]
            text_page = page.get_textpage()
            parts.append(text_page.get_text_bounded().replace("\r\n", "\n").strip())
            text_page.close()
            page.close()
    finally:
        document.close()
    if pages > MAX_PDF_PAGES:
        parts.append(f"[The first {MAX_PDF_PAGES} of {pages} pages.]")
    text = "\n\n".join(part for part in parts if part)
    return PageText(text) if text else PageText(problem="scanned")

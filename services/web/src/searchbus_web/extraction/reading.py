"""From the bytes of a page to its text. Runs in a child process: hostile pages hang any parser."""

from __future__ import annotations

import json
import re

import msgspec

__all__ = ["PageBytes", "PageText", "decode_text", "read_page"]

MAX_HTML_CHARS = 4_000_000
MAX_PDF_PAGES = 500
_SHORT_CHARS = 200
_META_CHARSET = re.compile(rb"<meta[^>]+charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]+)", re.I)
_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


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
    text = decode_text(page.body, page.charset)
    if page.media_type in ("text/html", "application/xhtml+xml"):
        return _read_html(text, page.url)
    if page.media_type.endswith("json"):
        return _read_json(text)
    stripped = text.strip()
    if page.media_type.endswith("xml") and "<html" in stripped[:2000].lower():
        return _read_html(text, page.url)
    return PageText(stripped) if stripped else PageText(problem="empty")


def decode_text(body: bytes, declared: str | None) -> str:
    """Decode by byte order mark, header, meta element, then by detection."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    meta = _META_CHARSET.search(body[:4096])
    candidates = [declared, meta[1].decode("ascii", "replace") if meta else None]
    for name in filter(None, candidates):
        # Browsers decode these labels as their supersets (WHATWG Encoding Standard).
        label = name.lower()
        wider = {"iso-8859-1": "cp1252", "latin1": "cp1252", "us-ascii": "cp1252",
                 "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "euc-kr": "cp949",
                 "x-sjis": "cp932"}.get(label, label)  # fmt: skip
        try:
            return body.decode(wider)
        except (LookupError, UnicodeDecodeError):
            continue  # the label is wrong
    try:
        return body.decode()
    except UnicodeDecodeError:
        pass
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding

    found = detect_encoding(body[:200_000])
    return str(bytes_to_str(body, found or "utf-8"))


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
    from resiliparse.extract.html2text import extract_plain_text

    everything = extract_plain_text(html, preserve_formatting=True).strip()
    if text and len(everything) < 5 * _SHORT_CHARS:
        return PageText(text)  # a short page
    main = extract_plain_text(html, preserve_formatting=True, main_content=True).strip()
    best = max((text or "", main), key=len)
    if len(best) < _SHORT_CHARS:
        best = everything
    return PageText(best) if best.strip() else PageText(problem="empty")


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

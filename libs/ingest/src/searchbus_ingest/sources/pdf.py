"""PDF to text, page by page, by PDFium."""

from __future__ import annotations

from typing import Any

from .item import Reason, SkipError

__all__ = ["pdf_to_text"]

MAX_PAGES = 5000


def pdf_to_text(body: bytes) -> tuple[str | None, str]:
    """Title (where the file has one) and text; pages are separated by blank lines.

    Raises:
        SkipError: not a PDF, encrypted, without text, or of more than 5,000 pages.
    """
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(body)
        try:
            if len(document) > MAX_PAGES:
                problem = f"more than {MAX_PAGES:,} pages, the limit of a PDF; split it"
                raise SkipError(Reason.TOO_LARGE, problem)
            text = "\n\n".join(filter(None, map(_text_of, document)))
            title = document.get_metadata_value("Title")
        finally:
            document.close()
    except pypdfium2.PdfiumError as error:
        problem = f"cannot be read: not a readable PDF ({error})"
        raise SkipError(Reason.UNREADABLE, problem) from None
    if not text:
        problem = "its pages contain no text; recognise the text of scans first (OCR)"
        raise SkipError(Reason.EMPTY, problem)
    return title, text


def _text_of(page: Any) -> str:
    text_page = page.get_textpage()
    try:
        text: str = text_page.get_text_bounded()
        return text.replace("\r\n", "\n").strip()
    finally:
        text_page.close()
        page.close()

"""PDF to text, page by page, by PDFium."""

from __future__ import annotations

from pathlib import Path

__all__ = ["pdf_to_text"]

MAX_PAGES = 5000


def pdf_to_text(path: Path) -> tuple[str | None, str]:
    """Title (where the file has one) and text; pages are separated by blank lines.

    Raises:
        ValueError: not a PDF, encrypted, or of more than 5,000 pages.
    """
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        raise ValueError(f"not a readable PDF ({error})") from None
    try:
        if len(document) > MAX_PAGES:
            raise ValueError(f"more than {MAX_PAGES} pages")
        pages = []
        for page in document:
            text_page = page.get_textpage()
            pages.append(text_page.get_text_bounded().replace("\r\n", "\n").strip())
            text_page.close()
            page.close()
        title = document.get_metadata_value("Title").strip() or None
        return title, "\n\n".join(text for text in pages if text)
    finally:
        document.close()

"""PDF files to text, with their bookmarks as headings."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

from .item import Reason, SkipError

MAX_PAGES = 5000
_MOST_BOOKMARKS, _MOST_OF_A_PAGE = 10_000, 200
"""Each is looked for in the text of its page."""
_MOST_NAMED = 20
_HYPHEN = re.compile(r"(-?)((?:(?<!\w)\w++)?)\x02(\w*)(-?)")
"""pdfium's mark for a hyphen at the end of a line, whose word it joins."""
_LIKE_A_HEADING = re.compile(r"^(?=#{1,6}[ \t])", re.M)


def pdf_to_text(body: bytes) -> tuple[str | None, str, str | None]:
    """Title (where the file has one), text, and a note on pages that cannot be read; pages are
    separated by blank lines, and its bookmarks are headings as in Markdown. Raises SkipError for
    what is not a PDF, encrypted, without text, or of more than 5,000 pages."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(body)
        try:
            if len(document) > MAX_PAGES:
                problem = f"more than {MAX_PAGES:,} pages, the limit of a PDF; split it"
                raise SkipError(Reason.TOO_LARGE, problem)
            headings: defaultdict[int, list[str]] = defaultdict(list)
            for mark in islice(document.get_toc(), _MOST_BOOKMARKS):
                if (place := mark.get_dest()) is None or not (words := _title(mark.get_title)):
                    continue
                if len(found := headings[place.get_index()]) < _MOST_OF_A_PAGE:
                    found.append(f"{'#' * min(mark.level + 1, 6)} {words}")
            pages, broken = [], []
            for number in range(len(document)):
                try:
                    pages.append(_page_text(document[number], headings[number]))
                except pypdfium2.PdfiumError:
                    broken.append(str(number + 1))
                    if len(broken) == len(document):
                        raise
            text = _without_hyphens("\n\n".join(filter(None, pages)))
            title = _title(partial(document.get_metadata_value, "Title"))
        finally:
            document.close()
    except pypdfium2.PdfiumError as error:
        problem = f"cannot be read: not a readable PDF ({error})"
        raise SkipError(Reason.UNREADABLE, problem) from None
    if not text:
        problem = "its pages contain no text; recognise the text of scans first (OCR)"
        raise SkipError(Reason.EMPTY, problem)
    note = f"page {', '.join(broken[:_MOST_NAMED])} cannot be read" if broken else None
    return title, text, note


def _title(read: Callable[[], str | None]) -> str:
    """A title on one line; empty where there is none, or it has half a character."""
    try:
        return " ".join((read() or "").split())
    except UnicodeDecodeError:
        return ""


def _page_text(page: Any, headings: Sequence[str]) -> str:
    text_page = page.get_textpage()
    try:
        text: str = text_page.get_text_bounded()
    finally:
        text_page.close()
        page.close()
    # A comment of a shell is no heading.
    text = _LIKE_A_HEADING.sub(" ", text.replace("\r\n", "\n"))
    place = 0
    for heading in headings:
        words = r"\s+".join(map(re.escape, heading.split()[1:])).replace(r"\-", r"[-\x02]")
        if found := re.compile(rf"^[ \t]*{words}[ \t]*$", re.M).search(text, place):
            before, after = text[: found.start()], text[found.end() :]
            text = f"{before}\n\n{heading}\n\n{after}"
            place = len(text) - len(after)
    return text.strip()


def _without_hyphens(text: str) -> str:
    """Without those that only part a word between lines: the text has the whole word elsewhere, or
    one of its parts nowhere."""
    known = set(re.findall(r"\w+", _HYPHEN.sub(" ", text).lower()))

    def joined(match: re.Match[str]) -> str:
        before, first, second, behind = match.groups()
        parts = {first.lower(), second.lower()}
        is_number = second[:1].isdigit()  # COVID-19
        whole = not is_number and ((first + second).lower() in known or not parts <= known)
        mark = "" if whole and not before and not behind else "-"
        return f"{before}{first}{mark}{second}{behind}"

    return _HYPHEN.sub(joined, text)

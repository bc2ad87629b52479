"""Result pages of html.duckduckgo.com and lite.duckduckgo.com.

A challenge is detected before results, whatever the status, and by the page's own elements: its
text holds the query and what others wrote. A page without results is `empty` only where it says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import parse_qs, urljoin, urlsplit

from msgspec.structs import replace
from selectolax.lexbor import LexborHTMLParser, LexborNode

from searchbus_contracts.web import WebResult
from searchbus_pages import TooComplexError, check_html
from searchbus_upstream import is_public_url
from searchbus_upstream.text import plain

from .outcome import Outcome, ResultPage

_BASE = "https://html.duckduckgo.com/html/"
MAX_PAGE_BYTES = 2 * 1024 * 1024
_CHALLENGE = '#challenge-form, [class*="anomaly-modal"]'
_CHALLENGER = '[action*="anomaly.js"], [src*="anomaly.js"]'
_NO_RESULTS = ("div.no-results", ".result--no-result", ".no-results__message")
_NO_RESULTS_TEXT = re.compile(r"^\W*No (more )?results", re.I)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}:\d{2}(?:\.\d+)?Z?)?")
_HIDDEN_FORM_FIELDS = 40
_MAX_WORK, _MAX_MARKS = 10_000_000, 40_000
"""What `check_html` lets through: parsing holds the loop. Real pages have 3,000 tags at most."""
_MAX_ROWS = 100
"""They may stand in each other, and each is searched whole. Real pages have up to 40."""


def parse_html(html: str) -> LexborHTMLParser:
    """The tree of a page; raises TooComplexError for one that would hold the loop."""
    check_html(html, max_work=_MAX_WORK, max_marks=_MAX_MARKS)
    return LexborHTMLParser(html)


def parse_page(status: int, body: bytes) -> ResultPage:
    """Parse one page; a truncated page yields its complete rows."""
    try:
        tree = parse_html(body.decode("utf-8", "replace"))
    except TooComplexError:
        tree = None
    if tree is not None and _is_challenge(tree):
        return ResultPage(Outcome.CHALLENGE)
    if status in (403, 429):
        return ResultPage(Outcome.RATE_LIMITED)
    if status >= 400:
        return ResultPage(Outcome.UPSTREAM_ERROR)
    if tree is None:
        return ResultPage(Outcome.UNKNOWN_MARKUP)
    rows = tuple(_html_rows(tree)) or tuple(_lite_rows(tree))
    if rows and _last_is_cut(body):
        rows = rows[:-1]
    if rows:
        return ResultPage(Outcome.OK, rows, _next_form(tree))
    if _says_empty(tree):
        return ResultPage(Outcome.EMPTY)
    if status == 202 or not body.strip():
        return ResultPage(Outcome.BLANK)
    return ResultPage(Outcome.UNKNOWN_MARKUP)


def _is_challenge(tree: LexborHTMLParser) -> bool:
    """Whether an element is a challenge's own, or leads to it: not where the query names it."""
    return tree.css_first(_CHALLENGE) is not None or any(
        _is_challenger(node.attributes.get(name))
        for node in tree.css(_CHALLENGER)
        for name in ("action", "src")
    )


def _is_challenger(address: str | None) -> bool:
    try:
        parts = urlsplit(urljoin(_BASE, (address or "").strip()))
    except ValueError:
        return False
    return _is_duckduckgo(parts.hostname) and parts.path == "/anomaly.js"


def _last_is_cut(body: bytes) -> bool:
    """Whether the page ends in the middle of its last row."""
    if b"</html" in body[-4096:].lower():
        return False
    title = max(body.rfind(b"result__a"), body.rfind(b"result-link"))
    snippet = max(body.rfind(b"result__snippet"), body.rfind(b"result-snippet"))
    if title > snippet:
        return True
    rest = body[snippet:]
    return not any(tag in rest for tag in (b"</a", b"</td", b"</div"))


def _html_rows(tree: LexborHTMLParser) -> Iterator[WebResult]:
    for block in tree.css("div.result")[:_MAX_ROWS]:
        classes = (block.attributes.get("class") or "").split()
        if any(name.startswith("result--ad") for name in classes):
            continue
        link = block.css_first("a.result__a")
        if link is None:
            continue  # the page was cut off here
        snippet = block.css_first(".result__snippet")
        row = _row(link, snippet)
        if row is not None:
            yield _dated(row, block)


def _lite_rows(tree: LexborHTMLParser) -> Iterator[WebResult]:
    """A result is a table row with a link and a later row with its snippet; ads have a class."""
    link: LexborNode | None = None
    snippet: LexborNode | None = None
    for line in tree.css("tr"):
        if line.css_first("table") is not None:
            continue  # the row of an outer table
        found = line.css_first("a.result-link")
        if found is not None:
            if link is not None and (row := _row(link, snippet)) is not None:
                yield row
            sponsored = "result-sponsored" in (line.attributes.get("class") or "")
            link, snippet = (None if sponsored else found), None
        elif snippet is None:
            snippet = line.css_first("td.result-snippet")
    if link is not None and (row := _row(link, snippet)) is not None:
        yield row


def _row(link: LexborNode, snippet: LexborNode | None) -> WebResult | None:
    url = target_of(link.attributes.get("href"))
    title = plain(link.text())
    if url is None or not title:
        return None
    return WebResult(title=title, url=url, snippet=plain(snippet.text()) if snippet else "")


def _dated(row: WebResult, block: LexborNode) -> WebResult:
    extras = block.css_first(".result__extras__url")
    for span in extras.css("span") if extras is not None else ():
        if span.attributes.get("class"):
            continue
        found = _DATE.search(span.text())
        if found is not None:
            return replace(row, published_at=_iso(found.group()))
    return row


def _iso(text: str) -> str:
    """ISO 8601 in UTC without fractions of a second; a date stays a date."""
    day, _, clock = text.partition("T")
    return f"{day}T{clock[:8]}Z" if clock else day


def _next_form(tree: LexborHTMLParser) -> dict[str, str]:
    """The hidden fields of the page's own form, sent back unchanged."""
    for selector in ("div.nav-link form", "form.next_form"):
        for form in tree.css(selector):
            fields = {
                name: field.attributes.get("value") or ""
                for field in form.css("input")[:_HIDDEN_FORM_FIELDS]
                if (name := field.attributes.get("name"))
            }
            previous = form.css_first('input[type="submit"]')
            label = (previous.attributes.get("value") or "") if previous is not None else ""
            # Without vqd the next request is refused and the address is blocked.
            if fields.get("vqd") and fields.get("q") and not label.lower().startswith("prev"):
                return fields
    return {}


def _says_empty(tree: LexborHTMLParser) -> bool:
    if any(tree.css_first(selector) is not None for selector in _NO_RESULTS):
        return True
    body = tree.css_first("#links") or tree.body
    return body is not None and _NO_RESULTS_TEXT.match(plain(body.text())[:200]) is not None


def target_of(href: str | None) -> str | None:
    """The URL that a result links to; None for an ad or a URL that is not public.

    `//duckduckgo.com/l/?uddg=<encoded>&rut=…` is decoded exactly once: decoding again
    would corrupt %2F, %26 and %2B of the target.
    """
    if not href:
        return None
    try:
        url = urljoin(_BASE, href.strip())
        parts = urlsplit(url)
        if _is_duckduckgo(parts.hostname) and parts.path.rstrip("/") == "/l":
            wrapped = parse_qs(parts.query).get("uddg")
            if not wrapped:
                return None
            url = wrapped[0]
            parts = urlsplit(url)
        if _is_duckduckgo(parts.hostname) and parts.path.startswith(("/y.js", "/l/")):
            return None
    except ValueError:
        return None
    return url if is_public_url(url) else None


def _is_duckduckgo(host: str | None) -> bool:
    return host is not None and (host == "duckduckgo.com" or host.endswith(".duckduckgo.com"))

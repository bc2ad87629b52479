"""HTML to Markdown-like text: headings, paragraphs, lists, tables, code; no scripts or menus."""

from __future__ import annotations

import re
from collections import Counter
from math import inf
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

MAX_HTML_CHARS = 32 * 1024 * 1024
MAX_WORK = 200_000_000
"""Steps of the parser: 200 million take about a second. Usual pages need under a million."""
_TAG = re.compile(
    r"""<!--.*?(?:-->|\Z)
    |<(script|style|textarea|title)\b.*?(?:</\1|\Z)
    |<(/?)([a-z][^\s/>]*+)((?:
        [\s/]++
        |(?:=[^\s/>=]*+|[^\s/>=]++)(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|([^\s>"'][^\s>]*+))?+)?+
    )*+)""",
    re.I | re.S | re.X,
)
_QUOTED = re.compile(r"""=\s*+(?:"[^"]*+"|'[^']*+')""")
_CLOSED_BY_THE_NEXT = frozenset(
    "area base br col embed hr img input link meta param source track wbr "
    "p li dt dd tr td th thead tbody tfoot colgroup".split()
)
_DRAWN = frozenset(
    "svg math path circle ellipse line polygon polyline rect use stop image g defs "
    "lineargradient".split()
)
"""Drawings, formulas and their elements, which `/>` closes; it does not close those of HTML."""
_NEST_IN_DRAWINGS = frozenset(
    "area base col input link param source track wbr td th tr thead tbody tfoot colgroup".split()
)
"""Those of them that end no drawing or formula, and nest in it."""
_NO_TEXT = ["script", "style", "noscript", "template", "svg", "iframe", "button", "select",
            "textarea"]  # fmt: skip
_SURROUNDING = ("nav", "header", "footer", "aside")
"""What is around the content of a page; some pages have nothing else."""
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_MAX_ROW_CHARS = 2000
"""A longer row of a table is a layout, and so is one that has these."""
_OF_LAYOUTS = "table, tr, pre, h1, h2, h3, h4, h5, h6"
_SPACES = re.compile(r"\s+")
_PARAGRAPH = re.compile(r"\n\s*\n")
_CODE_LINE = "\0"
"""Ends a line of a listing until all other white space is read; no page has a NUL."""
_CODE = {ord("\n"): _CODE_LINE, ord(" "): "\1", ord("\t"): "\1\1\1\1"}
_MARK_ALONE = re.compile(r"(\n\n(?:-|#{1,6}) )\s++(?!- |#|\| |```|~~~|\x02)")
"""The mark of an item or a heading whose text is in a block; a control character ends both."""
_BLOCKS = frozenset(
    "p div section article main ul ol table blockquote pre dl dt dd figure figcaption form "
    "header footer nav aside".split()
)


class HtmlText(NamedTuple):
    """The title of a page, where it has one, and its text."""

    title: str | None
    text: str


class TooComplexError(ValueError):
    """The page nests so deeply, or has so many attributes, that parsing it would take long."""


def read_html(html: str, *, selector: str | None = None) -> HtmlText:
    """Title and text of a page.

    Args:
        selector: CSS selector of the part that holds the content; the body where it is absent.

    Raises:
        ValueError: the page is larger than 32 Mi characters.
        TooComplexError: it would take the parser more than about a second for its nesting or
            attributes alone.
    """
    if len(html) > MAX_HTML_CHARS:
        raise ValueError("the page is larger than 32 Mi characters")
    check_html(html)
    tree = LexborHTMLParser(html)
    title_node = tree.css_first("head > title")  # a drawing in the body may have a title too
    title = title_node.text(strip=True) if title_node is not None else None
    root = (tree.css_first(selector) if selector else None) or tree.body
    if root is None:
        return HtmlText(title, "")
    root.strip_tags(_NO_TEXT)
    return HtmlText(title, _text_of(root, without=_SURROUNDING) or _text_of(root))


def check_html(html: str, *, max_work: int = MAX_WORK, max_marks: float = inf) -> int:
    """Refuse what takes a parser quadratic time; returns the number of opening tags.

    They walk up all open elements for most tags, and compare each attribute with those before it.

    Args:
        max_work: steps of the parser; by default it takes a second at most.
        max_marks: tags, closing ones too, and comments.

    Raises:
        TooComplexError: it has more of one of them.
    """
    work = tags = 0
    opened: list[str] = []
    counts: Counter[str] = Counter()
    for marks, match in enumerate(_TAG.finditer(html), 1):
        name = (match[3] or "").lower()
        drawn = counts["math"] or counts["svg"] or name in ("math", "svg")
        nests = drawn and name in _NEST_IN_DRAWINGS
        if not name or (name in _CLOSED_BY_THE_NEXT and not nests):
            tags += bool(name) and not match[2]
            work += len(opened)
        elif match[2]:
            # What is open inside is closed too; without an opening tag a closing one has no effect.
            while counts[name]:
                last = opened.pop()
                counts[last] -= 1
                if last == name:
                    break
        else:
            tags += 1
            work += len(opened)
            # The slash may be the end of a value without quotes.
            slash = match[4].endswith("/") and match.end(4) != match.end(5)
            if not (slash and drawn and (nests or name in _DRAWN)):
                opened.append(name)
                counts[name] += 1
        if len(match[4] or "") > 1000:
            work += _attributes(match[4]) ** 2 // 2
        if work > max_work or marks > max_marks:
            raise TooComplexError("the page has too many tags or attributes, or nests too deeply")
    return tags


def _attributes(text: str) -> int:
    """How many attributes there may be at most."""
    plain = _QUOTED.sub("=", text)
    return len(plain.split()) + plain.count("=") + plain.count("/")


def _text_of(root: LexborNode, *, without: tuple[str, ...] = ()) -> str:
    text = _MARK_ALONE.sub(r"\1", _inner(root, frozenset(without))).replace("\2", "")
    paragraphs = (" ".join(lines.split()) for lines in _PARAGRAPH.split(text))
    kept = "\n\n".join(one for one in paragraphs if one != "-" and one.strip("|# "))
    return kept.replace(_CODE_LINE, "\n").replace("\1", " ")


def fenced(text: str) -> str:
    """A listing between fences, as in Markdown."""
    fence = "~~~" if "```" in text else "```"
    return f"{fence}\n{text}\n{fence}"


def _listing_or_row(node: LexborNode, skipped: frozenset[str]) -> str:
    """A listing between fences, or a row of a table on one line; empty for everything else."""
    if node.tag == "pre":
        text = _inner(node, skipped, _CODE_LINE).strip(_CODE_LINE)
        listing = fenced(text).replace("\n", _CODE_LINE)
        return f"\n\n{listing}\n\n" if text.strip("\0\1") else "\n\n"
    parts = list(node.iter()) if node.tag == "tr" else []
    cells = [part for part in parts if part.tag in ("td", "th")]
    if len(cells) < 2 or any(part.css_first(_OF_LAYOUTS) for part in parts):
        return ""
    if len(node.text()) > _MAX_ROW_CHARS:
        return ""
    return f"\n\n| {' | '.join(_inner(cell, skipped, ' ') for cell in cells)} |\n\n"


def _inner(root: LexborNode, skipped: frozenset[str], line_end: str = "\n") -> str:
    """The text of a node: paragraphs, else lines that end so.

    Iterative, since a page may nest deeper than Python's stack.
    """
    out: list[str] = []
    stack: list[tuple[LexborNode | None, str]] = [(root, "")]
    while stack:
        node, closing = stack.pop()
        if node is None:
            out.append(closing)
            continue
        tag = node.tag
        if tag == "-text":
            text = node.text_content or ""
            in_code = line_end == _CODE_LINE
            out.append(text.translate(_CODE) if in_code else _SPACES.sub(" ", text))
            continue
        if tag in skipped:
            continue
        if tag == "br":
            out.append(line_end)
            continue
        if line_end == "\n" and (whole := _listing_or_row(node, skipped)):
            out.append(whole)
            continue
        opening = ending = ""
        if line_end != "\n":
            if tag in _BLOCKS or tag in _HEADINGS or tag in ("li", "tr"):
                opening, ending = line_end.strip(_CODE_LINE), line_end
        elif tag in _HEADINGS:
            opening, ending = f"\n\n{_HEADINGS[tag]} ", "\2\n\n"
        elif tag == "li":
            opening, ending = "\n\n- ", "\2\n\n"
        elif tag == "tr":
            opening, ending = "\n\n| ", "\n\n"
        elif tag in _BLOCKS:
            opening = ending = "\n\n"
        elif tag in ("td", "th"):
            ending = " | "
        out.append(opening)
        stack.append((None, ending))
        stack.extend((child, "") for child in reversed(list(node.iter(include_text=True))))
    return "".join(out)

"""HTML to Markdown-like text: headings, paragraphs, lists, tables; no scripts, menus or footers."""

from __future__ import annotations

from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode

__all__ = ["HtmlText", "read_html"]

MAX_HTML_CHARS = 32 * 1024 * 1024
_NO_TEXT = ["script", "style", "noscript", "template", "svg", "iframe", "button", "select",
            "textarea"]  # fmt: skip
_AROUND = ("nav", "header", "footer", "aside")
"""What is around the content of a page; some pages have nothing else."""
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_BLOCKS = frozenset(
    "p div section article main ul ol table tr blockquote pre dl dt dd figure figcaption form "
    "header footer nav aside".split()
)


class HtmlText(NamedTuple):
    """The title of a page, where it has one, and its text."""

    title: str | None
    text: str


def read_html(html: str, *, selector: str | None = None) -> HtmlText:
    """Title and text of a page.

    Args:
        selector: CSS selector of the part that holds the content; the body where it is absent.

    Raises:
        ValueError: the page is larger than 32 Mi characters.
    """
    if len(html) > MAX_HTML_CHARS:
        raise ValueError("the page is larger than 32 Mi characters")
    tree = LexborHTMLParser(html)
    title_node = tree.css_first("title")
    title = title_node.text(strip=True) if title_node is not None else None
    root = (tree.css_first(selector) if selector else None) or tree.body
    if root is None:
        return HtmlText(title, "")
    root.strip_tags(_NO_TEXT)
    return HtmlText(title, _text_of(root, without=_AROUND) or _text_of(root))


def _text_of(root: LexborNode, *, without: tuple[str, ...] = ()) -> str:
    lines: list[str] = []
    _walk(root, lines, frozenset(without))
    paragraphs = (" ".join(line.split()) for line in "".join(lines).split("\n\n"))
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph)


def _walk(root: LexborNode, out: list[str], skipped: frozenset[str]) -> None:
    """Iterative, since a page may nest deeper than Python's stack."""
    stack: list[tuple[LexborNode | None, str]] = [(root, "")]
    while stack:
        node, closing = stack.pop()
        if node is None:
            out.append(closing)
            continue
        tag = node.tag
        if tag == "-text":
            out.append(node.text_content or "")
            continue
        if tag in skipped:
            continue
        if tag == "br":
            out.append("\n")
            continue
        opening = ending = ""
        if tag in _HEADINGS:
            opening, ending = f"\n\n{_HEADINGS[tag]} ", "\n\n"
        elif tag == "li":
            opening, ending = "\n\n- ", "\n\n"
        elif tag in _BLOCKS:
            opening = ending = "\n\n"
        elif tag in ("td", "th"):
            ending = " | "
        out.append(opening)
        stack.append((None, ending))
        children = list(node.iter(include_text=True))
        stack.extend((child, "") for child in reversed(children))
